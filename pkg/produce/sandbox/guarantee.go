package sandbox

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/plural"
)

// Guarantee is one wall around a step.
type Guarantee string

// The guarantees there are.
const (
	// FilesHidden: the step sees its own directories, what is mounted for it
	// and the system's programs, and can write to its own directories only.
	FilesHidden Guarantee = "files-hidden"
	// ProcessesHidden: it sees and signals no process but its own.
	ProcessesHidden Guarantee = "processes-hidden"
	// NetworkClosed: no network, or declared hosts through our proxy alone.
	NetworkClosed Guarantee = "network-closed"
	// IPCHidden: no shared memory, queue or host name of the machine.
	IPCHidden Guarantee = "ipc-hidden"
	// NoCapabilities: every set of capabilities is empty, and stays so.
	NoCapabilities Guarantee = "no-capabilities"
	// NoNewPrivileges: no program that it starts gains anything.
	NoNewPrivileges Guarantee = "no-new-privileges"
	// CallsFiltered: the kernel refuses it the system calls of no build.
	CallsFiltered Guarantee = "calls-filtered"
	// OwnAccount: it runs under an account that neither the launcher nor
	// the runner has, nor any other step.
	OwnAccount Guarantee = "own-account"
	// TreeEnds: all that it started is dead before an output is read.
	TreeEnds Guarantee = "tree-ends"
	// DiskLimited: it is ended when what it has on the disk grows past a limit,
	// files without a name included.
	DiskLimited Guarantee = "disk-limited"
	// ProcessesLimited: the number of its processes has a limit.
	ProcessesLimited Guarantee = "processes-limited"
	// MemoryLimited: the memory of all its processes together has a limit.
	MemoryLimited Guarantee = "memory-limited"
)

// Guarantees lists all of them, in the order in which they are told.
func Guarantees() []Guarantee {
	return append(essential(), MemoryLimited)
}

// essential are those without which a step is not [Isolated]. A limit on the
// memory of a whole tree is for the machine's administrator to give, and
// keeps nothing secret.
func essential() []Guarantee {
	return []Guarantee{
		FilesHidden, ProcessesHidden, NetworkClosed, IPCHidden, NoCapabilities, NoNewPrivileges,
		CallsFiltered, OwnAccount, TreeEnds, DiskLimited, ProcessesLimited,
	}
}

// Report says which walls a step stood behind. The zero value says none.
type Report struct {
	Mode    Mode        `json:"mode"`
	Had     []Guarantee `json:"had"`
	Lacking []Lack      `json:"lacking,omitempty"`
	// Asked is what the step asked of the network, with what was answered.
	Asked []Asked `json:"asked,omitempty"`
	// RefusedMore counts what it asked of hosts that are not in Asked, because
	// so many others had been refused before.
	RefusedMore int `json:"refusedMore,omitempty"`
	// How says by which means limits and account were had.
	How []string `json:"how,omitempty"`
}

// Lack is a guarantee that could not be had.
type Lack struct {
	Guarantee Guarantee `json:"guarantee"`
	Reason    string    `json:"reason"`
}

// Asked is one host that a step asked for.
type Asked struct {
	Host    string `json:"host"` // "name:port", as the step wrote it
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"` // why not
	Times   int    `json:"times"`
}

// Has reports whether a guarantee was had.
func (r Report) Has(g Guarantee) bool { return slices.Contains(r.Had, g) }

// Reason is what is lacking, in one line; empty if nothing essential is.
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

// Loud lists what is lacking, one line each, limits included.
func (r Report) Loud() []string {
	var lines []string
	for _, l := range r.Lacking {
		lines = append(lines, fmt.Sprintf("%s is not had: %s", l.Guarantee, l.Reason))
	}
	return lines
}

// Print writes the report as the last lines of a log.
func (r Report) Print(w io.Writer) {
	had := make([]string, len(r.Had))
	for i, g := range r.Had {
		had[i] = string(g)
	}
	fmt.Fprintf(w, "[waybill] the step ran %s; had: %s; %s\n", r.Mode, strings.Join(had, " "), strings.Join(r.How, "; "))
	for _, line := range r.Loud() {
		fmt.Fprintf(w, "[waybill] %s\n", line)
	}
	for _, a := range r.Asked {
		answer := "allowed"
		if !a.Allowed {
			answer = "refused: " + a.Reason
		}
		fmt.Fprintf(w, "[waybill] it asked for %s, %s, %s\n", a.Host, plural.Of(a.Times, "time"), answer)
	}
	if r.RefusedMore > 0 {
		fmt.Fprintf(w, "[waybill] it asked %d more times, for other hosts, and was refused\n", r.RefusedMore)
	}
}

// have takes a guarantee in, once.
func (r *Report) have(list ...Guarantee) {
	for _, g := range list {
		if !r.Has(g) {
			r.Had = append(r.Had, g)
		}
	}
}

// lack tells that a guarantee was not had, once.
func (r *Report) lack(g Guarantee, reason string) {
	r.Had = slices.DeleteFunc(r.Had, func(h Guarantee) bool { return h == g })
	if !slices.ContainsFunc(r.Lacking, func(l Lack) bool { return l.Guarantee == g }) {
		r.Lacking = append(r.Lacking, Lack{Guarantee: g, Reason: reason})
	}
}

// missing lists the essential guarantees that a step of a mode needs and that
// the report does not have.
func (r Report) missing(mode Mode) (list []Guarantee) {
	for _, g := range essential() {
		if !r.Has(g) && (mode != Contained || g != OwnAccount) {
			list = append(list, g)
		}
	}
	return list
}

// nothingHad is the report of a step without walls.
func nothingHad(reason string) (r Report) {
	for _, g := range Guarantees() {
		r.lack(g, reason)
	}
	return r
}
