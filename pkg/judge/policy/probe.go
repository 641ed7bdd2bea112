package policy

import (
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// nobody is an identity that no policy can list.
func nobody() identity.Identity {
	return identity.Identity{Issuer: "https://nobody.invalid", Subject: "nobody@nobody.invalid", Type: identity.Email}
}

// otherBytes are digests of bytes that no artifact has.
func otherBytes(of digest.Set) digest.Set {
	text := []byte("waybill: the probe of a policy, not an artifact: " + of.SHA256.String() + of.SHA512.String())
	return digest.Set{SHA256: digest.Of(digest.SHA256, text), SHA512: digest.Of(digest.SHA512, text)}
}

// probe repeats the decision in forms that must be refused: without the
// evidence, with the same evidence signed by an unknown identity, and about
// other bytes. A rule that accepts one of those checks nothing.
func (m *judgement) probe(items []item) error {
	var made *doubts
	for i := range items {
		it := &items[i]
		if it.mode != Require {
			continue
		}
		if made == nil {
			made = m.doubts()
		}
		if with := made.passed(it); with != "" {
			return verdict.Refuse(verdict.PolicyVacuous, m.q.Subject, "the policy %q still accepts %s with %s", m.policy.name, it.name, with)
		}
	}
	return nil
}

// doubts returns the questions that must be refused after an acceptance.
type doubts struct {
	asked                   *judgement
	bare, others, strangers judgement
}

func (m *judgement) doubts() *doubts {
	d := &doubts{asked: m, bare: *m, others: *m, strangers: *m}
	d.bare.facts, d.bare.q.SBOM, d.bare.q.Why = nil, digest.Digest{}, nil
	d.others.q.Bytes = m.foreignBytes()
	people := make([]fact, len(m.facts))
	d.strangers.facts = make([]*fact, len(m.facts))
	for i, f := range m.facts {
		people[i] = f.as(nobody())
		d.strangers.facts[i] = &people[i]
	}
	return d
}

// foreignBytes returns digests that no artifact has, the question's included.
// They are derived from the bytes of the policy, so that no rule in the policy
// can contain them.
func (m *judgement) foreignBytes() digest.Set {
	others, bytes := m.policy.others, m.q.Bytes
	if others.IsZero() || others.SHA256 == bytes.SHA256 || others.SHA512 == bytes.SHA512 {
		return otherBytes(bytes)
	}
	return others
}

// passed says what an item accepted although it must refuse it; empty if it
// refused everything. A custom rule may depend on one input only, so it must
// refuse at least one of the doubts.
func (d *doubts) passed(it *item) string {
	if _, own := it.rule.(rule); own {
		return d.asked.passedByRule(it, &d.bare, &d.strangers, &d.others)
	}
	switch {
	case it.rule.judge(&d.bare).met:
		return "no evidence"
	case it.rule.judge(&d.others).met:
		return "evidence for other bytes"
	case it.name != string(SBOM) && it.rule.judge(&d.strangers).met: // SBOMs are unsigned
		return "evidence signed by an unknown identity"
	}
	return ""
}

// passedByRule is empty if the rule refuses at least one question. A rule may
// be about another stage, class or day than the question, so everything that it
// can see is changed.
func (m *judgement) passedByRule(it *item, changed ...*judgement) string {
	foreign := *m
	foreign.facts, foreign.q.Subject, foreign.q.Version, foreign.q.Commit = nil, "nothing/of/this/release", "v0.0.0-nothing", "nothing"
	foreign.q.Bytes = m.foreignBytes()
	for _, at := range []time.Time{m.q.At, time.Unix(0, 0).UTC(), m.q.At.AddDate(100, 0, 0)} {
		for where := range m.policy.cells {
			elsewhere := foreign
			elsewhere.q.At, elsewhere.q.Stage, elsewhere.q.Class = at, where.stage, where.class
			changed = append(changed, &elsewhere)
		}
	}
	for _, c := range changed {
		if !it.rule.judge(c).met {
			return ""
		}
	}
	return "every input changed"
}

// probeNothing evaluates every cell of a newly loaded policy for an artifact
// without any evidence. A cell that requires something must refuse; otherwise
// the policy is not loaded.
func probeNothing(p *Policy) error {
	bytes := otherBytes(digest.Set{SHA256: p.digest})
	for at, d := range p.cells {
		m := &judgement{policy: p, q: Question{Stage: at.stage, Class: at.class, Subject: "nothing", Bytes: bytes}}
		for _, it := range d.items {
			if _, own := it.rule.(rule); !own && it.mode == Require && it.rule.judge(m).met {
				return verdict.Refuse(verdict.PolicyVacuous, p.name, "accepts %s of %s at stage %s without any evidence", it.name, at.class, at.stage)
			}
		}
	}
	return nil
}
