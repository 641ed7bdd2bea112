package policy

import (
	"fmt"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// fact is what a policy decides by: who signed which statement about which
// bytes, and when. It is made from verified evidence. The zero fact states
// nothing.
type fact struct {
	who    identity.Identity
	key    digest.Digest
	claims *identity.Claims // nil: none
	memory *memory          // cache of reading; nil if there is none
	*saying
}

// saying is the content of a fact, without its signer.
type saying struct {
	kind     string
	signedAt time.Time
	logIndex int64
	log      string
	bundle   digest.Digest
	said     intoto.Statement // zero for a plain signature

	covers      func(name string, bytes digest.Set) bool
	coversBytes func(digest.Digest) bool
	reached     func(slsa.Trust, slsa.Question) (slsa.Report, error)
	read        reading
}

// reading caches what was derived from a fact.
type reading struct {
	once       sync.Once
	provenance *provenance.Claim
	err        error
}

// factOf converts verified evidence to a fact.
func factOf(e verify.Evidence) fact {
	var claims *identity.Claims
	if said := e.Claims(); said != (identity.Claims{}) {
		kept := said
		claims = &kept
	}
	by := &proven{e}
	return fact{who: Who(e), key: e.Key(), claims: claims, saying: &saying{
		kind: e.Kind(), signedAt: e.SignedAt(), logIndex: e.LogIndex(), log: e.Log(), bundle: e.Bundle(), said: e.Statement(),
		covers: by.covers, coversBytes: by.coversBytes, reached: by.reached,
	}}
}

// proven is the evidence that a fact was made from, shared by pointer because
// it is large.
type proven struct{ verify.Evidence }

func (p *proven) covers(name string, bytes digest.Set) bool { return p.Covers(name, bytes) }
func (p *proven) coversBytes(d digest.Digest) bool          { return p.CoversBytes(d) }

func (p *proven) reached(t slsa.Trust, q slsa.Question) (slsa.Report, error) {
	q.Provenance = p.Evidence
	return t.Judge(q)
}

// remember enables the cache of a fact for many questions. It is useful only
// for statements: a plain signature covers one artifact.
func (f *fact) remember() {
	if f.said.IsZero() || f.covers == nil {
		return
	}
	kept, covers, coversBytes := &memory{}, f.covers, f.coversBytes
	said := f.said
	f.memory = kept
	f.covers = func(name string, bytes digest.Set) bool {
		if i := kept.find(said); i != nil {
			return i.names(name, bytes)
		}
		return covers(name, bytes)
	}
	f.coversBytes = func(d digest.Digest) bool {
		if i := kept.find(said); i != nil {
			return i.has(d)
		}
		return coversBytes(d)
	}
}

// IsZero reports whether f is the zero fact.
func (f *fact) IsZero() bool { return f.saying == nil || f.bundle.IsZero() || f.covers == nil }

// claim parses the fact's provenance.
func (f *fact) claim() (*provenance.Claim, error) {
	f.read.once.Do(func() {
		claim, err := provenance.Read(f.said)
		f.read.provenance, f.read.err = &claim, err
	})
	return f.read.provenance, f.read.err
}

// level says which SLSA levels provenance shows for an artifact that it is bound
// to, with the summaries of its source and the declarations of the policy. They
// are the same for all artifacts with the same binding,
// because builders are not limited to stages or classes. A signer that may not
// act as the builder shows no level.
func (f *fact) level(m *judgement) (slsa.Report, error) {
	rebuilt := m.policy.rebuilt.by(m)
	return f.memory.level(levelKey{m.policy, m.entire(f), m.q.At, fmt.Sprint(rebuilt)}, func() (slsa.Report, error) {
		trust := m.policy.actors.trust
		if m.policy.actors.acts(f, Builder, &m.q) != nil {
			trust = slsa.Trust{}
		}
		return m.reach(f, trust, rebuilt)
	})
}

// as returns the same fact with another signer, about whom nothing else is
// known.
func (f *fact) as(who identity.Identity) fact {
	other := *f
	other.who, other.key, other.claims, other.memory = who, digest.Digest{}, nil, nil
	return other
}

// certified returns the claims of the signer's certificate.
func (f *fact) certified() identity.Claims {
	if f.claims == nil {
		return identity.Claims{}
	}
	return *f.claims
}

// proof is the proof that the fact provides if it meets a rule.
func (f *fact) proof(subject string, role Role) verdict.Proof {
	who := f.who
	if !f.key.IsZero() {
		who = identity.Identity{} // the key implies it
	}
	return verdict.Proof{
		Subject: subject, Statement: f.kind, Role: string(role), Identity: who.Subject, Issuer: who.Issuer, Key: f.key,
		SignedAt: f.signedAt, LogIndex: f.logIndex, Log: f.log, Bundle: f.bundle,
	}
}
