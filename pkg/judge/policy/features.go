package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The requirements that features can switch on and off, if the policy lists
// them. All others apply as written.
const (
	requireProvenance = "RequireProvenance" // provenance of artifacts, in cells
	requireSignoff    = "RequireSignoff"    // a sign-off of the release
)

// coreFeatures is the namespace of those features.
const coreFeatures = "waybill/"

// fileFeature limits how far a requirement may be lowered.
type fileFeature struct {
	// Floor is the lowest mode, whatever state is stored for the feature.
	Floor Mode `yaml:"floor"`
}

// strictness orders the modes. An unknown mode is the strictest.
func (m Mode) strictness() int {
	switch m {
	case Off:
		return 0
	case Warn:
		return 1
	}
	return 2
}

// switches are the requirements of a policy that features can switch.
type switches struct {
	floors map[string]Mode   // lowest mode by feature
	states []verdict.Feature // states that were applied to the policy
}

// Floors lists the features that can switch a requirement of the policy, with
// their lowest modes.
func (p Policy) Floors() map[string]Mode { return maps.Clone(p.switches.floors) }

// Features lists the switched requirements and their modes.
func (p Policy) Features() []verdict.Feature { return slices.Clone(p.switches.states) }

// Under returns the policy with these feature states applied. A state cannot
// lower a requirement below its floor, and requirements without a state apply
// as written. A feature that the policy does not list is refused. The policy
// keeps its digest; [verdict.InForce] names the combination.
func (p Policy) Under(states ...verdict.Feature) (Policy, error) {
	for _, s := range states {
		name, core := strings.CutPrefix(s.Name, coreFeatures)
		floor, named := p.switches.floors[name]
		if !core || !named {
			return Policy{}, verdict.Refuse(verdict.PolicyWeak, p.name, "feature %s is not listed in the policy, which lists %v", s.Name, slices.Sorted(maps.Keys(p.switches.floors))).
				Advise("list the feature in the policy, or correct its name")
		}
		if Mode(s.Mode).strictness() < floor.strictness() {
			s.Mode = string(floor)
		}
		if !Mode(s.Mode).known() {
			s.Mode = string(Require)
		}
		if slices.ContainsFunc(p.switches.states, func(o verdict.Feature) bool { return o.Name == s.Name }) {
			return Policy{}, verdict.Refuse(verdict.Usage, p.name, "feature %s is given two states", s.Name)
		}
		p.switches.states = append(slices.Clip(p.switches.states), s)
		switch mode := Mode(s.Mode); {
		case mode == Require:
		case name == requireSignoff:
			p.signoff.mode = mode
		default:
			p.cells = withProvenance(p.cells, mode)
		}
	}
	return p, nil
}

// withProvenance returns the cells with the mode of provenance changed where it
// is required.
func withProvenance(all map[cell]demand, to Mode) map[cell]demand {
	cells := maps.Clone(all)
	for at, d := range cells {
		if d.modes[Provenance] == Require {
			cells[at] = d.withProvenance(to)
		}
	}
	return cells
}

// withProvenance returns the demand with the mode of provenance changed. Levels
// are still checked, but no longer required.
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
	d.level, d.others = 0, nil
	return d
}

// loadFeatures reads which requirements can be switched. With a requirement
// lowered to its floor, the policy must still require something signed;
// otherwise everything would pass while the feature is off.
func (l *loader) loadFeatures() error {
	if l.Features == nil {
		return nil
	}
	if len(l.Features) == 0 {
		return l.fail(codeEmpty, at("features"), "empty; leave the key out")
	}
	if len(l.policy.actors.roles[Reconciler]) == 0 {
		return l.fail(codeEmpty, at("features"), "set, but the policy has no role reconciler, so no feature state could be verified")
	}
	l.policy.switches.floors = map[string]Mode{}
	for _, name := range slices.Sorted(maps.Keys(l.Features)) {
		floor, path := l.Features[name].Floor, at("features", name)
		switch {
		case name != requireProvenance && name != requireSignoff:
			return l.fail(codeValue, path, "want %s or %s: no other feature switches a requirement of a policy", requireProvenance, requireSignoff)
		case floor == Require:
			return l.fail(codeValue, append(path, "floor"), "require means that the feature cannot be switched; leave it out")
		case floor != Warn && floor != Off:
			return l.fail(codeValue, append(path, "floor"), "%q, want warn or off", floor)
		case name == requireSignoff && len(l.policy.signoff.stages) == 0:
			return l.fail(codeEmpty, path, "the policy requires no sign-off that could be switched")
		}
		l.policy.switches.floors[name] = floor
		if name == requireProvenance {
			if err := l.checkLowered(floor, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLowered refuses to make provenance switchable where it is the only
// requirement.
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
				return l.fail(codeEmpty, path, "provenance is the only requirement for %s at stage %s, so everything would pass while the feature is off: also require a signature", class, stage)
			case !lowered.requiresSigned() && !l.Unsigned:
				return l.fail(codeEmpty, path, "provenance is the only signed requirement for %s at stage %s, so unsigned artifacts would be accepted while the feature is off: also require a signature", class, stage)
			}
		}
	}
	if !switched {
		return l.fail(codeEmpty, path, "the policy requires no provenance that could be switched")
	}
	return nil
}

// explain says which requirements can be switched, and how far.
func (w switches) explain() Section {
	s := Section{Title: "What can be switched"}
	for _, name := range slices.Sorted(maps.Keys(w.floors)) {
		what := map[string]string{requireProvenance: "the requirement of provenance", requireSignoff: "the requirement of a sign-off"}[name]
		least := "not checked"
		if w.floors[name] == Warn {
			least = "a warning"
		}
		s.add("feature %s switches %s; while the feature is off, a failure is %s", name, what, least)
	}
	for _, f := range w.states {
		s.add("%s", fmt.Sprintf("%s is %s now (transition %d): %s", f.Name, f.State, f.Number, f.Mode))
	}
	return s
}
