package sandbox

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Guarantee is one property of the isolation of a step.
type Guarantee string

// The guarantees.
const (
	// FilesHidden: the step sees only its own directories, its mounts and the
	// system's programs, and can write only to its own directories.
	FilesHidden Guarantee = "files-hidden"
	// ProcessesHidden: it sees and signals only its own processes.
	ProcessesHidden Guarantee = "processes-hidden"
	// NetworkClosed: no network, or only declared hosts through our proxy.
	NetworkClosed Guarantee = "network-closed"
	// IPCHidden: no shared memory, queue or host name of the machine.
	IPCHidden Guarantee = "ipc-hidden"
	// NoCapabilities: all capability sets are empty, and stay so.
	NoCapabilities Guarantee = "no-capabilities"
	// NoNewPrivileges: programs that it starts gain no privileges.
	NoNewPrivileges Guarantee = "no-new-privileges"
	// CallsFiltered: the kernel refuses system calls that no build needs.
	CallsFiltered Guarantee = "calls-filtered"
	// OwnAccount: its account is used neither by the launcher, nor by the
	// runner, nor by any other step.
	OwnAccount Guarantee = "own-account"
	// TreeEnds: all its processes have ended before an output is read.
	TreeEnds Guarantee = "tree-ends"
	// DiskLimited: it is ended when it uses more disk space than its limit,
	// including files without a name.
	DiskLimited Guarantee = "disk-limited"
	// ProcessesLimited: the number of its processes is limited.
	ProcessesLimited Guarantee = "processes-limited"
	// MemoryLimited: the total memory of all its processes is limited.
	MemoryLimited Guarantee = "memory-limited"
)

// Guarantees lists all of them, in the order of reports.
func Guarantees() []Guarantee {
	return append(essential(), MemoryLimited)
}

// essential are the guarantees without which a step is not [Isolated]. A
// limit of the total memory needs the machine's administrator, and protects
// no secret.
func essential() []Guarantee {
	return []Guarantee{
		FilesHidden, ProcessesHidden, NetworkClosed, IPCHidden, NoCapabilities, NoNewPrivileges,
		CallsFiltered, OwnAccount, TreeEnds, DiskLimited, ProcessesLimited,
	}
}

// Report says which guarantees held for a step. The zero value has none.
type Report struct {
	Mode    Mode        `json:"mode"`
	Had     []Guarantee `json:"had"`
	Lacking []Lack      `json:"lacking,omitempty"`
	// Asked are the step's network requests, with the answers.
	Asked []Asked `json:"asked,omitempty"`
	// RefusedMore counts requests for hosts that are not in Asked, because
	// too many others were refused before.
	RefusedMore int `json:"refusedMore,omitempty"`
	// How says by which means limits and accounts were set up.
	How []string `json:"how,omitempty"`
}

// Lack is a guarantee that is missing.
type Lack struct {
	Guarantee Guarantee `json:"guarantee"`
	Reason    string    `json:"reason"`
}

// Asked is one host that a step tried to reach.
type Asked struct {
	Host    string `json:"host"` // "name:port", as the step wrote it
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"` // why it was refused
	Times   int    `json:"times"`
}

// Has reports whether a guarantee held.
func (r Report) Has(g Guarantee) bool { return slices.Contains(r.Had, g) }

// Reason is what is missing, in one line; empty if nothing essential is.
func (r Report) Reason() string {
	var told []string
	byReason := map[string][]string{}
	for _, l := range r.Lacking {
		if !slices.Contains(essential(), l.Guarantee) {
			continue
		}
		if byReason[l.Reason] == nil {
			told = append(told, l.Reason)
		}
		byReason[l.Reason] = append(byReason[l.Reason], string(l.Guarantee))
	}
	for i, reason := range told {
		told[i] = fmt.Sprintf("without %s: %s", strings.Join(byReason[reason], ", "), reason)
	}
	return strings.Join(told, "; ")
}

// Loud lists what is missing, one line each, limits included.
func (r Report) Loud() []string {
	return slice.Map(r.Lacking, func(l Lack) string { return fmt.Sprintf("without %s: %s", l.Guarantee, l.Reason) })
}

// Print writes the report as the last lines of a log.
func (r Report) Print(w io.Writer) {
	had := slice.Map(r.Had, func(g Guarantee) string { return string(g) })
	fmt.Fprintf(w, "[waybill] the step ran %s, with: %s; %s\n", r.Mode, strings.Join(had, " "), strings.Join(r.How, "; "))
	for _, line := range r.Loud() {
		fmt.Fprintf(w, "[waybill] %s\n", line)
	}
	for _, a := range r.Asked {
		answer := "allowed"
		if !a.Allowed {
			answer = "refused: " + a.Reason
		}
		fmt.Fprintf(w, "[waybill] the step asked to connect to %s %s, %s\n", a.Host, plural.Of(a.Times, "time"), answer)
	}
	if r.RefusedMore > 0 {
		fmt.Fprintf(w, "[waybill] the step asked to connect to other hosts %s, refused\n", plural.Of(r.RefusedMore, "time"))
	}
}

// have adds guarantees, each once.
func (r *Report) have(list ...Guarantee) {
	for _, g := range list {
		if !r.Has(g) {
			r.Had = append(r.Had, g)
		}
	}
}

// lack records that a guarantee is missing, once.
func (r *Report) lack(g Guarantee, reason string) {
	r.Had = slices.DeleteFunc(r.Had, func(h Guarantee) bool { return h == g })
	if !slices.ContainsFunc(r.Lacking, func(l Lack) bool { return l.Guarantee == g }) {
		r.Lacking = append(r.Lacking, Lack{Guarantee: g, Reason: reason})
	}
}

// missing lists the guarantees that a step of a mode needs and that the
// report does not have.
func (r Report) missing(mode Mode) []Guarantee {
	return slice.Filter(essential(), func(g Guarantee) bool { return !r.Has(g) && (mode != Contained || g != OwnAccount) })
}

// noGuarantees is the report of an unisolated step.
func noGuarantees(reason string) (r Report) {
	for _, g := range Guarantees() {
		r.lack(g, reason)
	}
	return r
}
