package policy

import (
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// nobody is an identity that no policy can mean.
func nobody() identity.Identity {
	return identity.Identity{Issuer: "https://nobody.invalid", Subject: "nobody@nobody.invalid", Type: identity.Email}
}

// otherBytes are the digests of something that nobody made.
func otherBytes(of digest.Set) digest.Set {
	text := []byte("waybill: the probe of a policy, not an artifact: " + of.SHA256.String() + of.SHA512.String())
	return digest.Set{SHA256: digest.Of(digest.SHA256, text), SHA512: digest.Of(digest.SHA512, text)}
}

// probe asks again what must be refused: without the evidence, with the same
// evidence from nobody that the policy knows, and about other bytes. A rule
// that accepts one of those asks nothing.
func (m *matter) probe(items []item) error {
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

// doubts are the questions that a yes leads to, each of which must be refused.
type doubts struct {
	asked                   *matter
	bare, others, strangers matter
}

func (m *matter) doubts() *doubts {
	d := &doubts{asked: m, bare: *m, others: *m, strangers: *m}
	d.bare.facts, d.bare.q.SBOM, d.bare.q.Why = nil, digest.Digest{}, nil
	d.others.q.Bytes = m.foreignBytes()
	people := make([]Fact, len(m.facts))
	d.strangers.facts = make([]*Fact, len(m.facts))
	for i, f := range m.facts {
		people[i] = f.as(nobody())
		d.strangers.facts[i] = &people[i]
	}
	return d
}

// foreignBytes are bytes that nobody made, and not the artifact's. They follow
// from the policy's own bytes, so that no rule in it can know them.
func (m *matter) foreignBytes() digest.Set {
	others, bytes := m.policy.others, m.q.Bytes
	if others.IsZero() || others.SHA256 == bytes.SHA256 || others.SHA512 == bytes.SHA512 {
		return otherBytes(bytes)
	}
	return others
}

// passed is what an item accepted that it must refuse, empty when it refused
// everything. A rule of the policy's own may look at one thing only, so of
// that it is asked that some doubt moves it.
func (d *doubts) passed(it *item) string {
	if _, own := it.rule.(rule); own {
		return d.asked.passedByRule(it, &d.bare, &d.strangers, &d.others)
	}
	switch {
	case it.rule.judge(&d.bare).met:
		return "no evidence at all"
	case it.rule.judge(&d.others).met:
		return "evidence of other bytes"
	case it.name != string(SBOM) && it.rule.judge(&d.strangers).met: // nobody signs an SBOM by itself
		return "the word of a stranger"
	}
	return ""
}

// passedByRule is empty when one of the questions moves the rule to a no. A
// rule may be about another stage, class or day than the question; so of it
// everything is changed that it can look at.
func (m *matter) passedByRule(it *item, changed ...*matter) string {
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
	return "everything changed that it could look at"
}

// probeNothing asks every cell of a policy that was just read about an
// artifact without any evidence. Where something is required that must be a
// no; a policy that says yes is not loaded.
func probeNothing(p *Policy) error {
	bytes := otherBytes(digest.Set{SHA256: p.digest})
	for at, d := range p.cells {
		m := &matter{policy: p, q: Question{Stage: at.stage, Class: at.class, Subject: "nothing", Bytes: bytes}}
		for _, it := range d.items {
			if _, own := it.rule.(rule); !own && it.mode == Require && it.rule.judge(m).met {
				return verdict.Refuse(verdict.PolicyVacuous, p.name, "accepts %s of %s at stage %s with no evidence at all", it.name, at.class, at.stage)
			}
		}
	}
	return nil
}
