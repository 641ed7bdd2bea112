package gate

import (
	"crypto"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/identity"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/trust"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// kindBlob is what evidence calls a plain signature over bytes.
const kindBlob = "blob"

// verifier proves bundles; its kind is chosen with the [Signer].
type verifier interface {
	Attestation(raw []byte) (verify.Evidence, error)
	Blob(raw []byte, artifact digest.Set) (verify.Evidence, error)
	Image(raw, payload []byte, image digest.Digest) (verify.Evidence, error)
	Root() trust.Root
}

// Signer is whose word is asked for: identities or one key, never either. The
// zero Signer is nobody, and nothing is accepted from nobody.
type Signer struct {
	verifier verifier
	keyed    bool
	public   crypto.PublicKey // where keyed
	who      []identity.Matcher
	claims   identity.Demand
	revoked  Revocations
}

// SignedBy asks for a keyless signature of any of these identities.
func SignedBy(v *verify.Verifier, who ...identity.Matcher) Signer {
	return Signer{verifier: v, who: who}
}

// SignedWith asks for a signature of one long-lived key.
func SignedWith(k *verify.KeyVerifier) Signer {
	return Signer{verifier: k, keyed: true, public: k.Public()}
}

// check refuses a signer that nothing could be proven about.
func (s Signer) check() error {
	if s.verifier == nil || !s.keyed && len(s.who) == 0 {
		return verdict.Refuse(verdict.Usage, "signer", "neither an identity nor a key was given; then anybody would do")
	}
	return nil
}

// made reports whether the signer made the evidence. A verifier of a key
// proves nothing that the key did not sign.
func (s Signer) made(e verify.Evidence) bool {
	if s.keyed {
		return !e.Key().IsZero()
	}
	return slices.ContainsFunc(s.who, func(m identity.Matcher) bool { return m.Match(e.Identity()) })
}

// String names who is meant, for messages.
func (s Signer) String() string {
	if s.keyed {
		return "the key that was given"
	}
	names := make([]string, len(s.who))
	for i, m := range s.who {
		names[i] = m.String()
	}
	return strings.Join(names, " or ")
}

// Ask is what evidence must say.
type Ask struct {
	Signer Signer
	// Type is the predicate type of an attestation. Empty asks for what
	// is usual: a plain signature of a file, cosign's signature of an image.
	Type string
	// Subject is the name that an attestation must give to the artifact.
	// Empty binds by digest alone; the verdict then says which name it was.
	Subject string
	// Levels are read from provenance, where that is what is asked.
	Levels Levels
}

// target is what evidence must be of.
type target struct {
	name    string // as asked, for messages
	digests digest.Set
	// chosen says that the caller named this very evidence. Evidence that was
	// merely found may say something else; then what was asked is missing.
	chosen bool
}

// begin starts a verdict by the identity or key that is asked for.
func (a Ask) begin(question string, now time.Time) *judge {
	return terms{root: a.Signer.verifier.Root(), now: now}.beginBy(question, byIdentity{a})
}

// unanswerable is the verdict on a request that is not one.
func unanswerable(question string, now time.Time, checks []string, required int, err error) *verdict.Verdict {
	v := verdict.New(question, now)
	v.Scope.Checks, v.Counts.Required = checks, required
	v.AddError("request", err)
	return v
}

// kind is the kind of evidence that is asked for. Of cosign's signatures of images
// there are two: those that refer to the image, and legacy ones.
func (a Ask) kind(e verify.Evidence) string {
	switch {
	case a.Type == "":
		return kindBlob
	case a.Type == intoto.CosignSignature && e.Kind() == verify.KindImage:
		return verify.KindImage
	}
	return a.Type
}

// judge answers whether verified evidence says what is asked of the target.
func (a Ask) judge(e verify.Evidence, t target) (verdict.Proof, error) {
	kind := a.kind(e)
	refuse := func(f verdict.Finding, want, got string) (verdict.Proof, error) {
		return verdict.Proof{}, &verdict.Error{Finding: f.Differ(want, got).Citing(e.Bundle())}
	}
	other := verdict.PredicateNone
	if t.chosen {
		other = verdict.PredicateType
	}
	switch {
	case e.IsZero():
		return verdict.Proof{}, verdict.Refuse(verdict.EvidenceMissing, t.name, "no evidence that says %s", kind)
	case e.Kind() != kind:
		return refuse(verdict.Find(other, t.name, "the evidence says something else"), kind, e.Kind())
	}
	if err := a.Signer.admit(e, t.name); err != nil {
		return verdict.Proof{}, err
	}
	if !a.binds(e, t) {
		if err := a.incomparable(e, t); err != nil {
			return verdict.Proof{}, err
		}
		return refuse(verdict.Find(verdict.NotBound, t.name, "the evidence is genuine, but not of this artifact"), a.wanted(t), subjects(e))
	}
	return proofOf(e, kind, t.name), nil
}

// binds reports whether evidence is of the target: by name and digest where a
// name is asked for, else by digest.
func (a Ask) binds(e verify.Evidence, t target) bool {
	switch e.Kind() {
	case kindBlob:
		return e.Covers(t.name, t.digests)
	case verify.KindImage: // which gives no name
		return a.Subject == "" && e.CoversBytes(t.digests.SHA256)
	}
	if a.Subject != "" {
		return slices.Contains(named(e, t), a.Subject)
	}
	return len(named(e, t)) > 0
}

// incomparable says that a statement names bytes by digests of another kind
// than are known of the target: it may be of it, and it may not.
func (a Ask) incomparable(e verify.Evidence, t target) error {
	for _, s := range e.Statement().Subjects() {
		if a.Subject != "" && s.Name != a.Subject {
			continue
		}
		same, other := s.Digests.SHA512, s.Digests.SHA256
		if !t.digests.SHA256.IsZero() {
			same, other = other, same
		}
		if !same.IsZero() || other.IsZero() || !t.digests.SHA256.IsZero() && !t.digests.SHA512.IsZero() {
			continue
		}
		f := verdict.Find(verdict.NoArtifact, t.name, "the evidence names bytes by their %s digest %s, and none of that kind was given: whether it is of this artifact cannot be known",
			other.Algorithm(), other.Hex()).Citing(e.Bundle())
		f.Fix = "give the file itself, or its " + other.Algorithm().String() + " digest"
		return &verdict.Error{Finding: f}
	}
	return nil
}

// named lists the names under which a statement speaks of the target's bytes.
func named(e verify.Evidence, t target) []string {
	var names []string
	for _, s := range bound(e, t) {
		names = append(names, s.Name)
	}
	return names
}

func (a Ask) wanted(t target) string {
	want := t.digests.SHA256.String()
	if t.digests.SHA256.IsZero() {
		want = t.digests.SHA512.String()
	}
	if a.Subject != "" {
		want = a.Subject + " " + want
	}
	return want
}

// subjects says what a statement is of, the first few.
func subjects(e verify.Evidence) string {
	const shown = 3
	all := e.Statement().Subjects()
	var words []string
	for _, s := range all[:min(shown, len(all))] {
		words = append(words, strings.TrimSpace(s.Name+" "+s.Digests.SHA256.String()))
	}
	if len(all) > shown {
		words = append(words, "…")
	}
	if len(words) == 0 {
		return "other bytes"
	}
	return strings.Join(words, ", ")
}

func proofOf(e verify.Evidence, kind, subject string) verdict.Proof {
	p := verdict.Proof{
		Subject: subject, Statement: kind, Role: "signer",
		Identity: e.Identity().Subject, Issuer: e.Identity().Issuer, Key: e.Key(),
		SignedAt: e.SignedAt(), LogIndex: e.LogIndex(), Log: e.Log(), Bundle: e.Bundle(),
	}
	for name, value := range e.Claims().All() {
		if p.Claims == nil {
			p.Claims = map[string]string{}
		}
		p.Claims[name] = value
	}
	return p
}
