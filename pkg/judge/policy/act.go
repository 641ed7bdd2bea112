package policy

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// actors.acts alone decides whether a signer may act in a role. Every check of
// a role must call it, so that no caller compares only the signer's name and
// forgets the time, claims, classes, stages or builder.

// policyEntry is the one place in a policy that lists an identity.
type policyEntry struct {
	role    Role
	builder string // id of the builder, rebuilder or verifier of sources; empty for other roles
	shares  bool   // a builder whose signers may also have the role release
	signers []allowedSigner
	age     time.Duration // how long summaries of sources count; zero: no limit
	upTo    int           // highest Source level that a verifier of sources may state
}

func (p policyEntry) String() string {
	switch p.role {
	case Builder:
		return "builder " + p.builder
	case sources:
		return "source verifier " + p.builder
	case rebuilder:
		return "rebuilder " + p.builder
	}
	return "role " + string(p.role)
}

// errTwoEntries says that two entries of a policy match one identity.
type errTwoEntries struct{ one, other policyEntry }

func (e *errTwoEntries) Error() string {
	return fmt.Sprintf("the identity matches signers of %s and of %s", e.one, e.other)
}

var errNoEntry = errors.New("the identity is not listed in the policy")

// actors says who may act in which role.
type actors struct {
	roles    map[Role][]allowedSigner
	builders []builder
	trust    slsa.Trust    // of the builders
	entries  []policyEntry // all entries that list an identity
}

// entryOf finds the entry that matches the signer of a fact. Patterns of two
// entries can match one identity, which the loader cannot detect. Such an
// identity may act in neither role: otherwise one signer would count as two, or
// would speak for the better builder. An identity that a builder shares with the
// role release acts as the builder in statements, and as release in signatures.
func (a *actors) entryOf(f *fact) (found policyEntry, err error) {
	err = errNoEntry
	for _, one := range a.entries {
		switch {
		case !anyOf(one.signers, f.who):
		case err == nil && one.shares && found.role == Release: // builders come last
			if !f.said.IsZero() && f.kind != intoto.CosignSignature {
				found = one
			}
		case err == nil:
			return policyEntry{}, &errTwoEntries{found, one}
		default:
			found, err = one, nil
		}
	}
	return found, err
}

// acts checks that the signer of a fact may act in a role for a question: the
// time of the signature, the claims of the certificate, the class and stage of
// the question and, for provenance, the builder that it names.
func (a *actors) acts(f *fact, role Role, q *Question) error {
	return a.actsBut(f, role, q, nil)
}

// actsBut is acts with some requirements removed from the signers, because
// their values are not known yet.
func (a *actors) actsBut(f *fact, role Role, q *Question, without func(*allowedSigner)) error {
	at, err := a.named(f, role, q)
	if err != nil {
		return err
	}
	if without != nil {
		at.signers = slices.Clone(at.signers)
		for i := range at.signers {
			without(&at.signers[i])
		}
	}
	err = acting(f, at.signers, q)
	switch {
	case err == nil && role == rebuilder && !f.said.IsZero():
		return rebuilds(f, at.builder)
	case err != nil || role != Builder || !isProvenance(f.kind):
		return err
	}
	return a.speaks(f, at.builder)
}

// named checks only the identity: the policy must list it in this role, and in
// no other place.
func (a *actors) named(f *fact, role Role, q *Question) (policyEntry, error) {
	at, err := a.entryOf(f)
	var two *errTwoEntries
	switch {
	case errors.As(err, &two):
		return policyEntry{}, refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.Identity, q.Subject, "the signer matches two entries of the policy, so neither applies").
				Differ("signers of one entry", two.Error())
		})
	case err != nil:
		return policyEntry{}, refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.Identity, q.Subject, "the signer is not listed in the policy").Differ(a.first(role), f.signer())
		})
	case at.role != role:
		return policyEntry{}, refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.IdentityRole, q.Subject, "signed by the %s identity, want the %s identity", at.role, role).Differ(a.first(role), f.signer())
		})
	}
	return at, nil
}

// speaks checks that provenance names the builder that its signer may speak
// for.
func (a *actors) speaks(f *fact, builder string) error {
	claim, err := f.claim()
	if err != nil || claim.Builder.ID == builder {
		return err
	}
	return refuse(f, func() verdict.Finding {
		return verdict.Find(verdict.Builder, cmp.Or(claim.Builder.ID, "provenance without a builder"), "%s may not sign provenance for this builder", f.signer()).
			Differ(a.speakerOf(claim.Builder.ID), f.signer()+", a signer of "+builder)
	})
}

// speakerOf returns a signer that may speak for a builder, for messages.
func (a *actors) speakerOf(builder string) string {
	for _, one := range a.entries {
		if one.role == Builder && one.builder == builder {
			return one.signers[0].String()
		}
	}
	return "a builder that the policy lists"
}

func isProvenance(kind string) bool {
	return kind == provenance.PredicateType || kind == provenance.PredicateTypeV02 || kind == provenance.PredicateTypeV01
}

// acting checks that a fact is signed by one of the signers, and meets
// everything else that the policy requires of that signer.
func acting(f *fact, signers []allowedSigner, q *Question) (err error) {
	for i := range signers {
		s := &signers[i]
		switch {
		case !s.matcher.Match(f.who):
		case !s.over(q):
			err = refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.IdentityRole, q.Subject, "the signer may not sign this class at this stage").
					Differ("an identity for "+q.words(), s.String()+" signs "+s.extent())
			})
		case !s.valid(f.signedAt):
			err = refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.IdentityWindow, q.Subject, "signed outside the time window in which the policy allows this identity").Differ(s.Window(), f.signedAt.Format(time.RFC3339))
			})
		case !s.claimed(f, q):
			err = refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.Claim, q.Subject, "the certificate lacks a claim that the policy requires").Differ(fmt.Sprint(s.claims), claimsOf(f.certified(), s.claims))
			})
		default:
			return nil
		}
	}
	if err == nil {
		err = refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.Identity, q.Subject, "signed by another identity").Differ(signers[0].String(), f.signer())
		})
	}
	return err
}

func anyOf(signers []allowedSigner, who identity.Identity) bool {
	for i := range signers {
		if signers[i].matcher.Match(who) {
			return true
		}
	}
	return false
}

// byRole returns acts as a clause.
func byRole(role Role) clause {
	return func(m *judgement, f *fact) error { return m.policy.actors.acts(f, role, &m.q) }
}

// Acts returns the role in which the signer of evidence may act for a question;
// only its stage, class and subject count.
func (p Policy) Acts(e verify.Evidence, q Question) (Role, error) {
	if e.IsZero() {
		return "", verdict.Refuse(verdict.EvidenceMissing, q.Subject, "no evidence was given")
	}
	f := factOf(e)
	role, err := p.actors.actor(&f, &q)
	return role, say(err)
}

// actor returns the role in which the signer of a fact may act.
func (a *actors) actor(f *fact, q *Question) (Role, error) {
	at, err := a.entryOf(f)
	if err != nil {
		at.role = Release // for the message
	}
	if err := a.acts(f, at.role, q); err != nil {
		return "", err
	}
	return at.role, nil
}

// ActsBy checks whether the holder of a certificate may act in a role for a
// question. It is for signatures older than bundles, which have no proof of
// their time: the certificate must have been issued while its holder was
// allowed to act.
func (p Policy) ActsBy(certificate []byte, role Role, q Question) error {
	leaf, err := x509.ParseCertificate(certificate)
	if err != nil {
		return verdict.Wrap(verdict.CertParse, q.Subject, err)
	}
	who, err := verify.CertificateIdentity(certificate)
	if err != nil {
		return err
	}
	claims, err := verify.CertificateClaims(certificate)
	if err != nil {
		return err
	}
	f := fact{who: who, claims: &claims, saying: &saying{signedAt: leaf.NotBefore.UTC()}}
	return say(p.actors.acts(&f, role, &q))
}

// CheckIdentity checks in advance whether an identity could act in a role at a
// time: for a token or key that has signed nothing yet, so that certificate
// claims and artifacts are unknown. The signatures that it makes are checked in
// full later.
func (p Policy) CheckIdentity(who identity.Identity, role Role, now time.Time) error {
	f := fact{who: who, saying: &saying{signedAt: now}}
	return say(p.actors.actsBut(&f, role, &Question{Subject: string(role)}, func(s *allowedSigner) { s.claims, s.stages, s.classes = nil, nil, nil }))
}

// BuilderOf is the builder for which the policy lists an identity, and its
// level; no id if the policy lists it for none, or for several.
func BuilderOf(p Policy, who identity.Identity) (id string, level int) {
	for _, b := range p.actors.builders {
		switch {
		case !anyOf(b.signers, who):
		case id != "":
			return "", 0
		default:
			id, level = b.id, b.level
		}
	}
	return id, level
}

// ActsSomewhere checks whether the signer of evidence may act in a role for at
// least one class and stage. It is for signing, when class and stage of the
// later verification are not known.
func ActsSomewhere(p Policy, e verify.Evidence, role Role) error {
	if e.IsZero() {
		return verdict.Refuse(verdict.EvidenceMissing, string(role), "no evidence was given")
	}
	f := factOf(e)
	return say(p.actors.actsBut(&f, role, &Question{Subject: string(role)}, func(s *allowedSigner) { s.stages, s.classes = nil, nil }))
}
