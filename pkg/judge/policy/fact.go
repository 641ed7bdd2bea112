package policy

import (
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

// Fact is what a policy judges: who said what, of which bytes, and when. It is
// made from verified evidence. The zero Fact says nothing.
type Fact struct {
	who    identity.Identity
	key    digest.Digest
	claims *identity.Claims // nil: none
	memory *memory          // nil remembers nothing
	*saying
}

// saying is what was said, whoever says it.
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

// reading is what was read of a fact, once.
type reading struct {
	once       sync.Once
	provenance *provenance.Claim
	err        error
}

// FactOf is what verified evidence says.
func FactOf(e verify.Evidence) Fact {
	var claims *identity.Claims
	if said := e.Claims(); said != (identity.Claims{}) {
		kept := said
		claims = &kept
	}
	by := &proven{e}
	return Fact{who: Who(e), key: e.Key(), claims: claims, saying: &saying{
		kind: e.Kind(), signedAt: e.SignedAt(), logIndex: e.LogIndex(), log: e.Log(), bundle: e.Bundle(), said: e.Statement(),
		covers: by.covers, coversBytes: by.coversBytes, reached: by.reached,
	}}
}

// proven is the evidence that a fact was made from, kept once: it is large.
type proven struct{ verify.Evidence }

func (p *proven) covers(name string, bytes digest.Set) bool { return p.Covers(name, bytes) }
func (p *proven) coversBytes(d digest.Digest) bool          { return p.CoversBytes(d) }

func (p *proven) reached(t slsa.Trust, q slsa.Question) (slsa.Report, error) {
	q.Provenance = p.Evidence
	return t.Judge(q)
}

// remember lets a fact keep what was found of it, for many questions. It is of
// use for statements only: a plain signature is of one artifact.
func (f *Fact) remember() {
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

// IsZero reports whether f says nothing.
func (f *Fact) IsZero() bool { return f.saying == nil || f.bundle.IsZero() || f.covers == nil }

// claim reads the provenance that the fact is.
func (f *Fact) claim() (*provenance.Claim, error) {
	f.read.once.Do(func() {
		claim, err := provenance.Read(f.said)
		f.read.provenance, f.read.err = &claim, err
	})
	return f.read.provenance, f.read.err
}

// level is the level of the Build track that provenance shows of an artifact
// to which it is bound. It is the same for all that are bound in the same way:
// builders are kept to no stage and no class. Of a signer who may not act as
// its builder nothing is believed.
func (f *Fact) level(m *matter) (slsa.Report, error) {
	return f.memory.level(grounds{m.policy, m.entire(f)}, func() (slsa.Report, error) {
		trust := m.policy.actors.trust
		if m.policy.actors.acts(f, Builder, &m.q) != nil {
			trust = slsa.Trust{}
		}
		return f.reached(trust, slsa.Question{Name: m.q.Subject, Bytes: m.q.Bytes, ByDigest: m.q.ByDigest})
	})
}

// as is the same fact in the mouth of somebody else, of whom nothing is known.
func (f *Fact) as(who identity.Identity) Fact {
	other := *f
	other.who, other.key, other.claims, other.memory = who, digest.Digest{}, nil, nil
	return other
}

// certified are the claims of the signer's certificate.
func (f *Fact) certified() identity.Claims {
	if f.claims == nil {
		return identity.Claims{}
	}
	return *f.claims
}

// proof is what the fact proves, when it does.
func (f *Fact) proof(subject string, role Role) verdict.Proof {
	who := f.who
	if !f.key.IsZero() {
		who = identity.Identity{} // the key says it
	}
	return verdict.Proof{
		Subject: subject, Statement: f.kind, Role: string(role), Identity: who.Subject, Issuer: who.Issuer, Key: f.key,
		SignedAt: f.signedAt, LogIndex: f.logIndex, Log: f.log, Bundle: f.bundle,
	}
}
