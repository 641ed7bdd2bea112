package policy

import (
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/identity"
	"github.com/waybill-release/waybill/pkg/verdict"
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
	for _, it := range items {
		if it.mode != Require {
			continue
		}
		if made == nil {
			made = m.doubts()
		}
		for _, doubt := range made.of(it) {
			if it.rule.judge(doubt.matter).met {
				return verdict.Refuse(verdict.PolicyVacuous, m.q.Subject, "the policy %q still accepts %s with %s", m.policy.name, it.name, doubt.with)
			}
		}
	}
	return nil
}

// doubt is a question that must be refused, and what is wrong with it.
type doubt struct {
	*matter
	with string
}

// doubts are the questions that a yes leads to.
type doubts struct {
	matter, bare, others, strangers *matter
}

func (m *matter) doubts() *doubts {
	bare, others, strangers := *m, *m, *m
	bare.facts, bare.q.SBOM, bare.q.Why = nil, digest.Digest{}, nil
	others.q.Bytes = otherBytes(m.q.Bytes)
	strangers.facts = make([]*Fact, len(m.facts))
	for i, f := range m.facts {
		strangers.facts[i] = f.as(nobody())
	}
	return &doubts{m, &bare, &others, &strangers}
}

// of are the doubts that one item must refuse. A rule of the policy's own may
// look at one thing only, so of that it is asked that some doubt moves it.
func (d *doubts) of(it item) []doubt {
	if _, own := it.rule.(rule); own {
		return d.matter.doubtsOfRule(it, d.bare, d.strangers, d.others)
	}
	all := []doubt{{d.bare, "no evidence at all"}, {d.others, "evidence of other bytes"}}
	if it.name != string(SBOM) { // nobody signs an SBOM by itself
		all = append(all, doubt{d.strangers, "the word of a stranger"})
	}
	return all
}

// doubtsOfRule is empty when one of the questions moves the rule to a no. A
// rule may be about another stage, class or day than the question; so of it
// everything is changed that it can look at.
func (m *matter) doubtsOfRule(it item, changed ...*matter) []doubt {
	foreign := *m
	foreign.facts, foreign.q.Subject, foreign.q.Version, foreign.q.Commit = nil, "nothing/of/this/release", "v0.0.0-nothing", "nothing"
	foreign.q.Bytes = otherBytes(m.q.Bytes)
	for _, at := range []time.Time{m.q.At, time.Unix(0, 0).UTC(), m.q.At.AddDate(100, 0, 0)} {
		for where := range m.policy.cells {
			elsewhere := foreign
			elsewhere.q.At, elsewhere.q.Stage, elsewhere.q.Class = at, where.stage, where.class
			changed = append(changed, &elsewhere)
		}
	}
	for _, c := range changed {
		if !it.rule.judge(c).met {
			return nil
		}
	}
	return []doubt{{&foreign, "everything changed that it could look at"}}
}

// probeNothing asks every cell of a policy that was just read about an
// artifact without any evidence. Where something is required that must be a
// no; a policy that says yes is not loaded.
func (p Policy) probeNothing() error {
	bytes := otherBytes(digest.Set{SHA256: p.digest})
	for at, d := range p.cells {
		m := &matter{policy: &p, q: Question{Stage: at.stage, Class: at.class, Subject: "nothing", Bytes: bytes}}
		for _, it := range d.items {
			if _, own := it.rule.(rule); !own && it.mode == Require && it.rule.judge(m).met {
				return verdict.Refuse(verdict.PolicyVacuous, p.name, "accepts %s of %s at stage %s with no evidence at all", it.name, at.class, at.stage)
			}
		}
	}
	return nil
}
