package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// Limits limit what one step may use; zero means no limit by the release.
type Limits struct {
	CPUs      int64 `json:"cpus,omitempty"`
	Memory    int64 `json:"memory,omitempty"` // in bytes
	Seconds   int64 `json:"seconds,omitempty"`
	Processes int64 `json:"processes,omitempty"`
	Disk      int64 `json:"disk,omitempty"` // in bytes
}

// IsZero reports whether there are no limits.
func (l Limits) IsZero() bool { return l == Limits{} }

// surroundings is what a step that runs a command may use.
type surroundings struct {
	tools   []text
	root    string   // Scratch or rootMachine; empty if unset
	network []string // nil if unset, empty for none
	limits  Limits
	env     []pair
}

// defaults are the author's defaults for all steps.
type defaults struct {
	step     surroundings
	evidence map[Class][]Kind
}

// surroundingKeys are the keys that a step and defaults.step share.
func surroundingKeys() []string { return []string{"tools", "root", "network", "limits", "env"} }

// rootMachine is the root in which a step also sees the machine's programs.
const rootMachine = "machine"

func readDefaults(n node) defaults {
	o := n.object("step", "evidence")
	d := defaults{evidence: map[Class][]Kind{}}
	d.step = readSurroundings(o.get("step").object(surroundingKeys()...))
	e := o.get("evidence").object(string(Binary), string(Archive), string(Other), string(Image))
	for _, class := range []Class{Binary, Archive, Other, Image} {
		if m := e.get(string(class)); m.given() {
			d.evidence[class] = readEvidence(m, class)
		}
	}
	return d
}

// readEvidence reads which evidence is published for each class. Provenance is
// mandatory: nothing may leave the builder without it.
func readEvidence(n node, class Class) (list []Kind) {
	known := kindsOf(class)
	for _, t := range n.words("kinds of evidence") {
		k := Kind(t.s)
		if !slices.Contains(known, k) {
			n.r.faults = append(n.r.faults, t.at.fault("%s; an artifact of class %s has %s", quote(t.s), class, known))
			continue
		}
		list = append(list, k)
	}
	if !slices.Contains(list, KindProvenance) {
		n.fail("%s is required: the builder writes it for every artifact", KindProvenance)
	}
	if class == Image && !slices.Contains(list, kindSignature) {
		n.fail("%s is required; every image is signed", kindSignature)
	}
	return list
}

func readSurroundings(o object) surroundings {
	a := surroundings{limits: readLimits(o.get("limits"))}
	a.tools = o.get("tools").wordsThat("names of tools", isName, "tool %s: want lower-case letters, digits and dashes")
	if m := o.get("root"); m.given() {
		a.root = m.choice(rootMachine, Scratch)
	}
	if m := o.get("network"); m.given() {
		a.network = readNetwork(m)
	}
	a.env = o.get("env").texts("a mapping of variables")
	for _, v := range a.env {
		if !isVariable(v.key.s) {
			o.r.faults = append(o.r.faults, v.key.at.fault("env %s: want letters, digits and _", quote(v.key.s)))
		}
	}
	return a
}

// host reads a name of the public network with an optional port. Numeric
// addresses are refused: tomorrow they may belong to another host.
var host = pattern.Lazy(`^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?(?::[1-9][0-9]{0,4})?$`)

// readNetwork reads "none" or a list of hosts.
func readNetwork(n node) []string {
	if n.isText() {
		n.choice("none")
		return []string{}
	}
	list := []string{}
	for _, t := range n.words("hosts, or none") {
		switch {
		case !isHost(t.s):
			n.r.faults = append(n.r.faults, t.at.fault("%s: want a host name, as in proxy.example.test or proxy.example.test:443", quote(t.s)))
		case !strings.Contains(t.s, ":"):
			list = append(list, t.s+":443")
		default:
			list = append(list, t.s)
		}
	}
	return list
}

func readLimits(n node) Limits {
	o := n.object("cpus", "memory", "time", "processes", "disk")
	l := Limits{CPUs: o.get("cpus").number(1, 4096), Processes: o.get("processes").number(1, 1<<22)}
	l.Memory, l.Disk = o.get("memory").amount(), o.get("disk").amount()
	if t := o.get("time").text(); t.given() {
		d, err := time.ParseDuration(t.s)
		if err != nil || d < time.Second || d > 7*24*time.Hour || d%time.Second != 0 {
			o.get("time").fail("%s: want whole seconds up to 168h, as in 2h or 90s", quote(t.s))
		} else {
			l.Seconds = int64(d / time.Second)
		}
	}
	return l
}

// amount reads bytes; absent is 0.
func (n node) amount() int64 {
	t := n.text()
	if !t.given() {
		return 0
	}
	bytes := parseMemory(t.s)
	if bytes == 0 {
		n.fail("%s: want a number of Mi or Gi, as in 24Gi", quote(t.s))
	}
	return bytes
}

// parseMemory parses an amount of bytes; 0 if it is none.
func parseMemory(s string) int64 {
	for unit, size := range map[string]int64{"Mi": 1 << 20, "Gi": 1 << 30} {
		digits, ok := strings.CutSuffix(s, unit)
		n, err := strconv.ParseInt(digits, 10, 64)
		if ok && err == nil && n > 0 && n <= 1<<20 && strconv.FormatInt(n, 10) == digits {
			return n * size
		}
	}
	return 0
}

// withDefaults fills unset fields of a step from the defaults: tools and network as a
// whole, limits and variables one by one.
func (a surroundings) withDefaults(d surroundings) surroundings {
	if a.tools == nil {
		a.tools = d.tools
	}
	a.root = cmp.Or(a.root, d.root)
	if a.network == nil {
		a.network = d.network
	}
	a.limits = Limits{
		CPUs: cmp.Or(a.limits.CPUs, d.limits.CPUs), Memory: cmp.Or(a.limits.Memory, d.limits.Memory),
		Seconds: cmp.Or(a.limits.Seconds, d.limits.Seconds), Processes: cmp.Or(a.limits.Processes, d.limits.Processes),
		Disk: cmp.Or(a.limits.Disk, d.limits.Disk),
	}
	own := a.env
	for _, v := range d.env {
		if !slices.ContainsFunc(own, func(o pair) bool { return o.key.s == v.key.s }) {
			a.env = append(slices.Clip(a.env), v)
		}
	}
	return a
}

func isVariable(s string) bool {
	if s == "" || len(s) > 128 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}
