package policy

import "slices"

// HasRules reports whether the policy has custom rules.
func (p Policy) HasRules() bool { return len(p.rules) > 0 }

// Narrow returns the policy with only these checks of artifacts, and without
// custom rules. The caller must report what it left out, because the policy
// keeps its digest.
func (p Policy) Narrow(keep ...Check) Policy {
	cells := make(map[cell]demand, len(p.cells))
	for at, d := range p.cells {
		narrow := demand{modes: map[Check]Mode{}}
		for check, mode := range d.modes {
			if !slices.Contains(keep, check) {
				mode = Off
			}
			narrow.modes[check] = mode
		}
		for _, it := range d.items {
			if slices.Contains(keep, Check(it.name)) {
				narrow.items = append(narrow.items, it)
			}
		}
		if slices.Contains(keep, Provenance) {
			narrow.level, narrow.others = d.level, d.others
		}
		if slices.Contains(keep, SBOM) {
			narrow.whole, narrow.profile = d.whole, d.profile
		}
		cells[at] = narrow
	}
	p.cells = cells
	return p
}
