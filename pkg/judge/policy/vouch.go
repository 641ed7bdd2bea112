package policy

import (
	"maps"
	"slices"

	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Vouching returns a policy that accepts, wherever this one requires
// provenance, a verification summary in its place, if it counts by the policy's
// summaries and has the level required of the class. Without such a summary,
// provenance is evaluated as usual. The caller must report this, because the
// policy keeps its digest.
func (p Policy) Vouching() (Policy, error) {
	p.summaries = slices.DeleteFunc(slices.Clone(p.summaries), func(s summary) bool { return s.pinned.IsZero() })
	if len(p.summaries) == 0 {
		return Policy{}, verdict.Refuse(verdict.Usage, "--accept-vsa", "the policy %q lists no verifier under summaries whose policy it pins by digest", p.name).
			Advise("leave the flag out to evaluate provenance, or add summaries to the policy")
	}
	cells := maps.Clone(p.cells)
	p.vouch = map[cell]requirement{}
	for at, d := range cells {
		i := slices.IndexFunc(d.items, func(it item) bool { return it.name == string(Provenance) })
		if i < 0 || len(d.others) > 0 { // a summary of an artifact shows no level of these tracks
			continue
		}
		vouched, err := summarized(p.summaries, d.level)
		if err != nil {
			return Policy{}, err
		}
		either, err := oneOf(vouched, d.items[i].rule)
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

// summarized is met by a summary that counts and has the required SLSA Build
// level, if there is one.
func summarized(summaries []summary, level int) (requirement, error) {
	var rules []requirement
	for _, s := range summaries {
		if s.Levels[vsa.TrackBuild] < level {
			s.Levels = maps.Clone(s.Levels)
			s.Levels[vsa.TrackBuild] = level
		}
		rules = append(rules, &some{role: Verifier, absent: verdict.EvidenceMissing, what: "verification summary", check: Summary,
			clauses: []step{perRelease(ofKind(vsa.PredicateType)), perRelease(byRole(Verifier)), perRelease(s.spokenForBy), perArtifact(bound), perArtifact(s.answers)}})
	}
	return oneOf(rules...)
}

// Vouched is a summary that replaces provenance.
type Vouched struct {
	verdict.Proof
	Summary vsa.Summary
}

// Vouched reports whether a verifier's summary replaces an artifact's
// provenance, in a policy made by [Policy.Vouching].
func (h *Session) Vouched(evidence []verify.Evidence, q Question) (Vouched, error) {
	if err := q.check(); err != nil {
		return Vouched{}, err
	}
	rule := h.policy.vouch[cell{q.Stage, q.Class}]
	if rule == nil {
		return Vouched{}, verdict.Refuse(verdict.EvidenceMissing, q.Subject, "no verification summary replaces the artifact's provenance")
	}
	m := &judgement{policy: &h.policy, q: q, facts: h.read(evidence)}
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
	return Vouched{}, verdict.Refuse(verdict.EvidenceMissing, q.Subject, "the accepted summary was not found again")
}

// Vouches reports whether a summary may replace the provenance of a class at a
// stage: see [Policy.Vouching].
func (p Policy) Vouches(stage Stage, class plan.Class) bool {
	return p.vouch[cell{stage, class}] != nil
}
