package policy

import (
	"maps"
	"slices"

	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Vouching is the policy with, wherever it looks at provenance, the summary of
// a verifier in its place: one that counts by the policy's summaries, and has
// the level that is required of the class. Where there is none, provenance is
// evaluated as ever. Who asks less by it must say so: the policy keeps its
// digest.
func (p Policy) Vouching() (Policy, error) {
	if len(p.summaries) == 0 {
		return Policy{}, verdict.Refuse(verdict.Usage, "--accept-vsa", "the policy %q names in summaries no verifier whose word would count", p.name).
			Advise("leave the flag out, so that provenance is evaluated; or add summaries to the policy")
	}
	cells := maps.Clone(p.cells)
	p.vouch = map[cell]Rule{}
	for at, d := range cells {
		i := slices.IndexFunc(d.items, func(it item) bool { return it.name == string(Provenance) })
		if i < 0 {
			continue
		}
		vouched, err := summarized(p.summaries, d.level)
		if err != nil {
			return Policy{}, err
		}
		either, err := Any(vouched, d.items[i].rule)
		if err != nil {
			return Policy{}, err
		}
		d.items = slices.Clone(d.items)
		d.items[i].rule = either
		cells[at], p.vouch[at] = d, vouched
	}
	p.cells = cells
	return p, nil
}

// summarized is met by a summary that counts, and has a level of the Build
// track if one is required.
func summarized(summaries []summary, level int) (Rule, error) {
	var rules []Rule
	for _, s := range summaries {
		if s.Levels[vsa.TrackBuild] < level {
			s.Levels = maps.Clone(s.Levels)
			s.Levels[vsa.TrackBuild] = level
		}
		rules = append(rules, &some{role: Verifier, absent: verdict.EvidenceMissing, what: "a verifier's summary", check: Summary,
			clauses: []asked{lasting(ofKind(vsa.PredicateType)), lasting(byRole(Verifier)), lasting(s.spokenForBy), fleeting(bound), fleeting(s.answers)}})
	}
	return Any(rules...)
}

// Vouched is a summary that stands in the place of provenance.
type Vouched struct {
	verdict.Proof
	Summary vsa.Summary
}

// Vouched answers whether a verifier's summary stands in the place of an
// artifact's provenance, by a policy that is [Policy.Vouching].
func (h *Hearing) Vouched(evidence []verify.Evidence, q Question) (Vouched, error) {
	if err := q.check(); err != nil {
		return Vouched{}, err
	}
	rule := h.policy.vouch[cell{q.Stage, q.Class}]
	if rule == nil {
		return Vouched{}, verdict.Refuse(verdict.EvidenceMissing, q.Subject, "no summary stands for its provenance")
	}
	m := &matter{policy: &h.policy, q: q, facts: h.read(evidence)}
	a := rule.judge(m)
	if !a.met {
		return Vouched{}, say(a.err)
	}
	if err := m.probe([]item{{string(Summary), Require, rule}}); err != nil {
		return Vouched{}, err
	}
	for _, f := range m.facts {
		if f.bundle != a.proofs[0].Bundle {
			continue
		}
		said, err := vsa.Parse(f.said)
		return Vouched{a.proofs[0], said}, err
	}
	return Vouched{}, verdict.Refuse(verdict.EvidenceMissing, q.Subject, "the summary that counts is gone")
}

// Vouches reports whether a summary may stand in the place of the provenance of
// a class at a stage: see [Policy.Vouching].
func (p Policy) Vouches(stage Stage, class plan.Class) bool {
	return p.vouch[cell{stage, class}] != nil
}
