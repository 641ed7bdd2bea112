package policy

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Whether a signer may act is decided here and nowhere else: everything that
// asks for a role asks actors.acts, so that no caller looks at the name of a
// signer and forgets the time, the claims, the classes, the stages or the
// builder.

// post is the one place of a policy in which an identity is named.
type post struct {
	role    Role
	builder string // its id, empty for other roles
	signers []Signer
}

func (p post) String() string {
	if p.role == Builder {
		return "builder " + p.builder
	}
	return "role " + string(p.role)
}

// errTwoPosts is the reason for an identity that two places of a policy match.
type errTwoPosts struct{ one, other post }

func (e *errTwoPosts) Error() string {
	return fmt.Sprintf("it matches the signers of %s and of %s", e.one, e.other)
}

var errNoPost = errors.New("the policy does not know it")

// actors are who may act in which role.
type actors struct {
	roles    map[Role][]Signer
	builders []builder
	trust    slsa.Trust // in the builders
	posts    []post     // every place in which an identity is named
}

// postOf finds the place of an identity. Patterns of two places can match one
// identity, which no loader can foresee; such an identity may act in neither:
// else one signer would be counted as two, or speak for the better builder.
func (a *actors) postOf(who identity.Identity) (found post, err error) {
	err = errNoPost
	for _, one := range a.posts {
		switch {
		case !anyOf(one.signers, who):
		case err == nil:
			return post{}, &errTwoPosts{found, one}
		default:
			found, err = one, nil
		}
	}
	return found, err
}

// acts answers whether the signer of a fact may act in a role where a question
// asks: at the time of the signature, with the claims of the certificate, for
// the class and stage of the question and, for provenance, in the name of the
// builder that it gives.
func (a *actors) acts(f *Fact, role Role, q *Question) error {
	return a.actsBut(f, role, q, nil)
}

// actsBut is acts where a part of what is asked of a signer is not known yet,
// which without takes away.
func (a *actors) actsBut(f *Fact, role Role, q *Question, without func(*Signer)) error {
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
	if err := acting(f, at.signers, q); err != nil || role != Builder || !isProvenance(f.kind) {
		return err
	}
	return a.speaks(f, at.builder)
}

// named asks for the name alone: whether the policy names the signer in a role,
// and in no other place.
func (a *actors) named(f *Fact, role Role, q *Question) (post, error) {
	at, err := a.postOf(f.who)
	var two *errTwoPosts
	switch {
	case errors.As(err, &two):
		return post{}, refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.Identity, q.Subject, "the policy names who signed this in two places, so that it may act in neither").
				Differ("signers of one place", two.Error())
		})
	case err != nil:
		return post{}, refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.Identity, q.Subject, "the policy does not know who signed this").Differ(a.first(role), f.signer())
		})
	case at.role != role:
		return post{}, refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.IdentityRole, q.Subject, "signed by the %s identity, where the %s identity must", at.role, role).Differ(a.first(role), f.signer())
		})
	}
	return at, nil
}

// speaks asks whether provenance names the builder that its signer speaks for.
func (a *actors) speaks(f *Fact, builder string) error {
	claim, err := f.claim()
	if err != nil || claim.Builder.ID == builder {
		return err
	}
	return refuse(f, func() verdict.Finding {
		return verdict.Find(verdict.Builder, cmp.Or(claim.Builder.ID, "provenance without a builder"), "%s may not speak for this builder", f.signer()).
			Differ(a.speakerOf(claim.Builder.ID), f.signer()+", who speaks for "+builder)
	})
}

// speakerOf is one of those who speak for a builder, for messages.
func (a *actors) speakerOf(builder string) string {
	for _, one := range a.posts {
		if one.role == Builder && one.builder == builder {
			return one.signers[0].String()
		}
	}
	return "a builder that the policy lists"
}

func isProvenance(kind string) bool {
	return kind == provenance.PredicateType || kind == provenance.PredicateTypeV02 || kind == provenance.PredicateTypeV01
}

// acting asks whether one of the signers is the fact's, with everything that
// is asked of him besides his name.
func acting(f *Fact, signers []Signer, q *Question) error {
	var err error
	for i := range signers {
		s := &signers[i]
		switch {
		case !s.matcher.Match(f.who):
		case !s.over(q):
			err = refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.IdentityRole, q.Subject, "signed by an identity that may not sign this").
					Differ("an identity for "+q.words(), s.String()+" signs "+s.extent())
			})
		case !s.valid(f.signedAt):
			err = refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.IdentityWindow, q.Subject, "signed by an identity at a time when it could not act").Differ(s.Window(), f.signedAt.Format(time.RFC3339))
			})
		case !s.claimed(f):
			err = refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.Claim, q.Subject, "the certificate does not say what the policy asks of it").Differ(fmt.Sprint(s.claims), claimsOf(f.certified(), s.claims))
			})
		default:
			return nil
		}
	}
	if err == nil {
		err = refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.Identity, q.Subject, "signed by somebody else").Differ(signers[0].String(), f.signer())
		})
	}
	return err
}

// anyOf reports whether an identity is one of the signers, whenever they act.
func anyOf(signers []Signer, who identity.Identity) bool {
	for i := range signers {
		if signers[i].matcher.Match(who) {
			return true
		}
	}
	return false
}

// byRole is acts as a clause.
func byRole(role Role) clause {
	return func(m *matter, f *Fact) error { return m.policy.actors.acts(f, role, &m.q) }
}

// Acts is the role in which the signer of evidence may act where a question
// asks, of which stage, class and subject count.
func (p Policy) Acts(e verify.Evidence, q Question) (Role, error) {
	if e.IsZero() {
		return "", verdict.Refuse(verdict.EvidenceMissing, q.Subject, "there is no evidence")
	}
	f := FactOf(e)
	role, err := p.actors.actor(&f, &q)
	return role, say(err)
}

// actor is the role in which the signer of a fact may act.
func (a *actors) actor(f *Fact, q *Question) (Role, error) {
	at, err := a.postOf(f.who)
	if err != nil {
		at.role = Release // for the words of the refusal
	}
	if err := a.acts(f, at.role, q); err != nil {
		return "", err
	}
	return at.role, nil
}

// ActsBy answers whether the holder of a certificate may act in a role where a
// question asks. It is for the forms of signatures from before bundles, which
// do not prove when they were made: the certificate must have been issued while
// its holder might act.
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
	f := Fact{who: who, claims: &claims, saying: &saying{signedAt: leaf.NotBefore.UTC()}}
	return say(p.actors.acts(&f, role, &q))
}

// Foresee tells beforehand whether an identity could act in a role at a time.
// It is for a token or a key with which nothing was signed yet, of which claims
// and artifacts are not known; what was signed is judged when it is there.
func (p Policy) Foresee(who identity.Identity, role Role, now time.Time) error {
	f := Fact{who: who, saying: &saying{signedAt: now}}
	return say(p.actors.actsBut(&f, role, &Question{Subject: string(role)}, func(s *Signer) { s.claims, s.stages, s.classes = nil, nil, nil }))
}

// ActsSomewhere answers whether the signer of evidence may act in a role, for
// whoever signs and does not know of which class an artifact is and at which
// stage it will be judged.
func ActsSomewhere(p Policy, e verify.Evidence, role Role) error {
	if e.IsZero() {
		return verdict.Refuse(verdict.EvidenceMissing, string(role), "there is no evidence")
	}
	f := FactOf(e)
	return say(p.actors.actsBut(&f, role, &Question{Subject: string(role)}, func(s *Signer) { s.stages, s.classes = nil, nil }))
}
