package gate

import (
	"cmp"
	"crypto"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// kindBlob is the kind of evidence of a plain signature over bytes.
const kindBlob = "blob"

// verifier verifies bundles, by identity or by key; see [Signer].
type verifier interface {
	Attestation(raw []byte) (verify.Evidence, error)
	BlobSHA384(raw []byte, artifact digest.Set, sum []byte) (verify.Evidence, error)
	layers
	Root() trust.Root
}

// layers verifies what the layers of legacy tags contain.
type layers interface {
	Image(raw, payload []byte, image digest.Digest) (verify.Evidence, error)
	Layer(raw []byte) (verify.Evidence, error)
}

// Signer says who must have signed: identities or one key, never both. The zero
// Signer matches no evidence.
type Signer struct {
	verifier verifier
	keyed    bool
	public   crypto.PublicKey // if keyed
	who      []identity.Matcher
	claims   identity.Demand
	revoked  Revocations
	unlogged bool
}

// SignedBy requires a keyless signature by one of these identities.
func SignedBy(v *verify.Verifier, who ...identity.Matcher) Signer {
	return Signer{verifier: v, who: who}
}

// SignedWith requires a signature by one long-lived key.
func SignedWith(k *verify.KeyVerifier) Signer {
	return Signer{verifier: k, keyed: true, public: k.Public()}
}

// InsecureEnvelopes also accepts, of files and for a key, envelopes without log
// entry and time: see [verify.KeyVerifier.InsecureEnvelope].
func (s Signer) InsecureEnvelopes() Signer {
	s.unlogged = s.keyed
	return s
}

// check refuses a signer that names neither an identity nor a key.
func (s Signer) check() error {
	if s.verifier == nil || !s.keyed && len(s.who) == 0 {
		return verdict.Refuse(verdict.Usage, "signer", "no identity and no key was given, so a signature by anyone would be accepted")
	}
	return nil
}

// made reports whether the signer made the evidence. A verifier with a key only
// returns evidence that this key signed.
func (s Signer) made(e verify.Evidence) bool {
	if s.keyed {
		return !e.Key().IsZero()
	}
	return slices.ContainsFunc(s.who, func(m identity.Matcher) bool { return m.Match(e.Identity()) })
}

// String names the signer, for messages.
func (s Signer) String() string {
	if s.keyed {
		return "the given key"
	}
	return strings.Join(slice.Map(s.who, identity.Matcher.String), " or ")
}

// Ask is what the evidence must state.
type Ask struct {
	Signer Signer
	// Type is the required predicate type. Empty means the usual signature: a
	// plain signature of a file, cosign's signature of an image.
	Type string
	// Subject is the name that an attestation must give the artifact. Empty
	// accepts any name of these bytes; the verdict then reports the name.
	Subject string
	// Package, as NAME@VERSION, is the npm package or the distribution on PyPI
	// that an attestation must name, instead of Subject.
	Package string
	// VersionedTag is a version such as v14.2: the source must be a tag that it
	// covers; see [provenance.Source.Tagged].
	VersionedTag string
	// Levels are the SLSA levels to require, where Type is provenance.
	Levels Levels
}

// begin starts a verdict by the required identity or key.
func (a Ask) begin(question string, now time.Time, checks ...string) *judge {
	t := terms{now: now}
	if a.Signer.verifier != nil {
		t.root = a.Signer.verifier.Root()
	}
	j := t.beginBy(question, byIdentity{a})
	j.v.Scope.Checks = checks
	return j
}

// kind is the required kind of evidence. Cosign has two kinds of image
// signatures: referrers, and legacy tags.
func (a Ask) kind(e verify.Evidence) string {
	switch {
	case a.Type == "":
		return kindBlob
	case a.Type == intoto.CosignSignature && e.Kind() == verify.KindImage:
		return verify.KindImage
	}
	return a.Type
}

// judge checks verified evidence against the request.
func (a Ask) judge(e verify.Evidence, i item) (verdict.Proof, error) {
	kind := a.kind(e)
	refuse := func(f verdict.Finding, want, got string) (verdict.Proof, error) {
		return verdict.Proof{}, &verdict.Error{Finding: f.Differ(want, got).Citing(e.Bundle())}
	}
	other := verdict.PredicateNone
	if i.chosen {
		other = verdict.PredicateType
	}
	switch {
	case e.IsZero():
		return verdict.Proof{}, verdict.Refuse(verdict.EvidenceMissing, i.question.Subject, "no evidence of type %s", kind)
	case e.Kind() != kind:
		return refuse(verdict.Find(other, i.question.Subject, "the evidence has another predicate type"), kind, e.Kind())
	}
	err := a.Signer.admit(e, i.question.Subject)
	if err == nil && a.reliesOnSource() {
		err = contradicted(e, i.question.Subject)
	}
	if err != nil {
		return verdict.Proof{}, err
	}
	if err := a.tagged(e, i.question.Subject); err != nil {
		return verdict.Proof{}, err
	}
	if !a.binds(e, i) {
		if err := a.incomparable(e, i); err != nil {
			return verdict.Proof{}, err
		}
		return refuse(verdict.Find(verdict.NotBound, i.question.Subject, "the evidence is valid, but for another artifact"), a.wanted(i), subjects(e))
	}
	if err := a.published(e, i.question.Subject); err != nil {
		return verdict.Proof{}, err
	}
	if strings.HasPrefix(kind, "https://slsa.dev/verification_summary/") {
		var said map[string]any
		_ = json.Unmarshal(e.Statement().Predicate(), &said)                     // without a result it did not pass
		result, older := said["verificationResult"], said["verification_result"] // the latter before v1
		for _, one := range []any{cmp.Or(result, older), cmp.Or(older, result)} {
			if got, _ := one.(string); got != string(vsa.Passed) {
				return refuse(verdict.Find(verdict.VSAResult, i.question.Subject, "the result of the summary is not PASSED"), string(vsa.Passed), got)
			}
		}
	}
	return proofOf(e, kind, i.question.Subject), nil
}

// reliesOnSource reports whether the question names a source, its tag, a run, a
// builder or a level: then provenance must not contradict its certificate. A question about
// the signer alone is answered, and the verdict notes the contradiction.
func (a Ask) reliesOnSource() bool {
	l := a.Levels
	return a.VersionedTag != "" || len(a.Signer.claims) > 0 || len(l.Require) > 0 || len(l.Sources) > 0 || !l.Builders.IsZero()
}

// binds reports whether evidence is about the item: by name and digest where a
// name is required, else by digest.
func (a Ask) binds(e verify.Evidence, i item) bool {
	switch e.Kind() {
	case kindBlob:
		return e.Covers(i.question.Subject, i.question.Bytes)
	case verify.KindImage: // has no name
		return a.Subject+a.Package == "" && e.CoversBytes(i.question.Bytes.SHA256)
	}
	return slices.ContainsFunc(boundNames(e, i), a.names)
}

// names reports whether a name of the artifact is the required one.
func (a Ask) names(name string) bool {
	return (a.Subject == "" || a.Subject == name) && (a.Package == "" || packageOf(a.Package, name))
}

// tagged checks that all that names the source of a build names a tag that
// VersionedTag covers: the certificate, the provenance, or both.
func (a Ask) tagged(e verify.Evidence, subject string) error {
	if a.VersionedTag == "" {
		return nil
	}
	said, _ := provenance.Read(e.Statement()) // no provenance names no source
	signed, built := e.Claims().SourceRef, said.Source.Ref
	for _, ref := range []string{cmp.Or(signed, built), cmp.Or(built, signed)} {
		if err := (provenance.Source{Ref: ref}).Tagged(a.VersionedTag); err != nil {
			return about(subject, err)
		}
	}
	return nil
}

// incomparable reports a statement that names bytes by another digest algorithm
// than the user gave: whether the statement is about the item is then unknown.
func (a Ask) incomparable(e verify.Evidence, i item) error {
	for _, s := range e.Statement().Subjects() {
		if !a.names(s.Name) {
			continue
		}
		same, other := s.Digests.SHA512, s.Digests.SHA256
		if !i.question.Bytes.SHA256.IsZero() {
			same, other = other, same
		}
		if !same.IsZero() || other.IsZero() || !i.question.Bytes.SHA256.IsZero() && !i.question.Bytes.SHA512.IsZero() {
			continue
		}
		return &verdict.Error{Finding: verdict.Find(verdict.NoArtifact, i.question.Subject, "the evidence names bytes by %s digest %s, and no digest of that algorithm was given, so the two cannot be compared",
			other.Algorithm(), other.Hex()).Citing(e.Bundle()).
			Advise("give the file itself, or its " + other.Algorithm().String() + " digest")}
	}
	return nil
}

// boundNames lists the names that a statement gives to the item's bytes.
func boundNames(e verify.Evidence, i item) []string {
	return slice.Map(boundSubjects(e, i), func(s intoto.Subject) string { return s.Name })
}

func (a Ask) wanted(i item) string {
	return strings.TrimSpace(a.Subject + a.Package + " " + firstOf(i.question.Bytes).String())
}

// subjects lists the first few subjects of a statement.
func subjects(e verify.Evidence) string {
	const shown = 3
	all := e.Statement().Subjects()
	words := slice.Map(all[:min(shown, len(all))], func(s intoto.Subject) string { return strings.TrimSpace(s.Name + " " + s.Digests.SHA256.String()) })
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
