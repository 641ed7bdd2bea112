package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The requirements of a policy that features switch on and off, if the policy
// names them: all others count as they are written.
const (
	RequireProvenance = "RequireProvenance" // what cells require of provenance
	RequireSignoff    = "RequireSignoff"    // that a release has a sign-off
)

// coreFeatures is the namespace of those features.
const coreFeatures = "waybill/"

// fileFeature is how far a requirement may be switched.
type fileFeature struct {
	// Floor is the least that it counts, whatever a store says.
	Floor Mode `yaml:"floor"`
}

// strictness orders the modes. What is no mode is the strictest.
func (m Mode) strictness() int {
	switch m {
	case Off:
		return 0
	case Warn:
		return 1
	}
	return 2
}

// switches are the requirements of a policy that features switch.
type switches struct {
	floors map[string]Mode   // of the features that may switch one
	states []verdict.Feature // that the policy is under
}

// Floors are the features that may switch a requirement of the policy, and the
// least that each counts.
func (p Policy) Floors() map[string]Mode { return maps.Clone(p.switches.floors) }

// Features are the requirements that are switched, and how far they count.
func (p Policy) Features() []verdict.Feature { return slices.Clone(p.switches.states) }

// Under is the policy as it counts in these states of features. Each counts at
// least what the floor says, and what no state is given of counts as it is
// written. What the policy does not name cannot be switched: that is refused.
// The policy keeps its digest; [verdict.InForce] says what it amounts to.
func (p Policy) Under(states ...verdict.Feature) (Policy, error) {
	for _, s := range states {
		name, core := strings.CutPrefix(s.Name, coreFeatures)
		floor, named := p.switches.floors[name]
		if !core || !named {
			return Policy{}, verdict.Refuse(verdict.PolicyWeak, p.name, "feature %s switches nothing of the policy: it names %v", s.Name, slices.Sorted(maps.Keys(p.switches.floors)))
		}
		if Mode(s.Mode).strictness() < floor.strictness() {
			s.Mode = string(floor)
		}
		if !Mode(s.Mode).known() {
			s.Mode = string(Require)
		}
		if slices.ContainsFunc(p.switches.states, func(o verdict.Feature) bool { return o.Name == s.Name }) {
			return Policy{}, verdict.Refuse(verdict.Usage, p.name, "feature %s is in one state at a time", s.Name)
		}
		p.switches.states = append(slices.Clip(p.switches.states), s)
		switch mode := Mode(s.Mode); {
		case mode == Require:
		case name == RequireSignoff:
			p.signoff.mode = mode
		default:
			p.cells = withProvenance(p.cells, mode)
		}
	}
	return p, nil
}

// withProvenance are the cells with provenance counting so much where it is
// required.
func withProvenance(all map[cell]demand, to Mode) map[cell]demand {
	cells := maps.Clone(all)
	for at, d := range cells {
		if d.modes[Provenance] == Require {
			cells[at] = d.withProvenance(to)
		}
	}
	return cells
}

// withProvenance is the demand with provenance counting so much. The level is
// what is looked for; it is no longer demanded.
func (d demand) withProvenance(to Mode) demand {
	d.modes = maps.Clone(d.modes)
	d.modes[Provenance] = to
	d.items = slices.Clone(d.items)
	d.items = slices.DeleteFunc(d.items, func(it item) bool { return to == Off && it.name == string(Provenance) })
	for i, it := range d.items {
		if it.name == string(Provenance) {
			d.items[i].mode = to
		}
	}
	d.level = 0
	return d
}

// loadFeatures reads which requirements may be switched. One that is switched as
// far down as it may be must leave something to be asked: else everything would
// pass while it is off.
func (l *loader) loadFeatures() error {
	if l.Features == nil {
		return nil
	}
	if len(l.Features) == 0 {
		return l.fail(codeEmpty, at("features"), "empty; leave the key out")
	}
	if len(l.policy.actors.roles[Reconciler]) == 0 {
		return l.fail(codeEmpty, at("features"), "requirements may be switched, and nobody has the role reconciler; then no state of a feature could be believed")
	}
	l.policy.switches.floors = map[string]Mode{}
	for _, name := range slices.Sorted(maps.Keys(l.Features)) {
		floor, path := l.Features[name].Floor, at("features", name)
		switch {
		case name != RequireProvenance && name != RequireSignoff:
			return l.fail(codeValue, path, "want %s or %s: no other feature switches what a policy requires", RequireProvenance, RequireSignoff)
		case floor == Require:
			return l.fail(codeValue, append(path, "floor"), "require: then it cannot be switched; leave the feature out")
		case floor != Warn && floor != Off:
			return l.fail(codeValue, append(path, "floor"), "%q, want warn or off", floor)
		case name == RequireSignoff && len(l.policy.signoff.stages) == 0:
			return l.fail(codeEmpty, path, "the policy asks for no sign-off that could be switched")
		}
		l.policy.switches.floors[name] = floor
		if name == RequireProvenance {
			if err := l.checkLowered(floor, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLowered refuses to switch provenance where nothing else is required.
func (l *loader) checkLowered(floor Mode, path []any) error {
	switched := false
	for _, stage := range stages() {
		for _, class := range Judged() {
			d := l.policy.cells[cell{stage, class}]
			if d.modes[Provenance] != Require {
				continue
			}
			switched = true
			switch lowered := d.withProvenance(floor); {
			case !lowered.requires():
				return l.fail(codeEmpty, path, "nothing but provenance is required of %s at stage %s; then anything would pass while the feature is off: require a signature, too", class, stage)
			case !lowered.requiresSigned() && !l.Unsigned:
				return l.fail(codeEmpty, path, "nothing that is signed but provenance is required of %s at stage %s; then it would be accepted unsigned while the feature is off: require a signature, too", class, stage)
			}
		}
	}
	if !switched {
		return l.fail(codeEmpty, path, "the policy requires provenance of nothing that could be switched")
	}
	return nil
}

// explain says what may be switched, and how far.
func (w switches) explain() Section {
	s := Section{Title: "What may be switched"}
	for _, name := range slices.Sorted(maps.Keys(w.floors)) {
		what := map[string]string{RequireProvenance: "that provenance is required", RequireSignoff: "that a sign-off is required"}[name]
		least := "not at all while it is off"
		if w.floors[name] == Warn {
			least = "as a warning at least"
		}
		s.add("feature %s switches %s; it counts %s, whatever the store of features says", name, what, least)
	}
	for _, f := range w.states {
		s.add("%s", fmt.Sprintf("%s is %s now (transition %d): %s", f.Name, f.State, f.Number, f.Mode))
	}
	return s
}
