package pipeline

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Officer signs statements outside of any release: policies, lists of known
// defects and exceptions as the policy's officer, sign-offs as the role that
// signs releases off, and declarations as either.
//
//	draft, err := officer.DraftException(artifact, predicate)
//	proof, err := officer.Sign(ctx, draft, pipeline.Target{Dir: ".", Name: "a.exception.sigstore.json"})
type Officer struct {
	Profile profile.Profile
	World
	Token token.Source
	// Key signs instead of an identity, if it is set.
	Key crypto.Signer
}

// Draft is a statement that is ready to be signed, with the check that the
// signed statement must pass.
type Draft struct {
	Statement intoto.Statement
	// role is the role that signs.
	role policy.Role
	// accept judges the signed statement as its consumers will.
	accept func(verify.Evidence) (verdict.Proof, error)
	// number returns the number of a revision; nil if the statement has no
	// revisions.
	number func(intoto.Statement) (int, error)
}

// Target is the file that a bundle is written to.
type Target struct{ Dir, Name string }

// maxBundle limits the size of a bundle that is read back.
const maxBundle = 4 << 20

// DraftPolicy drafts the statement that the raw text is the policy p.
func (o Officer) DraftPolicy(file string, raw []byte, p policy.Policy) (Draft, error) {
	if p.Sequence() == 0 {
		return Draft{}, verdict.Refuse(verdict.ConfigParse, file, "the policy has no sequence; add one, because without it an older policy could replace it")
	}
	if err := p.Life(o.Clock()); err != nil {
		return Draft{}, err
	}
	s, err := signedpolicy.New(file, digest.SetOf(raw), signedpolicy.Predicate{Name: p.Name(), Sequence: p.Sequence(), Expires: p.Expires()})
	accept := func(e verify.Evidence) (verdict.Proof, error) {
		proof, err := o.Profile.Policy.Judge(e, policy.Ask{Role: policy.Officer, Kind: signedpolicy.PredicateType, Subject: file, Whole: true})
		if err == nil && o.Profile.Pin != nil {
			err = p.Signed(e, raw, *o.Profile.Pin, o.Clock())
		}
		return proof, err
	}
	number := func(s intoto.Statement) (int, error) {
		said, err := signedpolicy.Parse(s)
		return said.Sequence, err
	}
	return Draft{Statement: s, role: policy.Officer, accept: accept, number: number}, err
}

// DraftDefects drafts the statement of a list of known defects.
func (o Officer) DraftDefects(file string, raw []byte) (Draft, error) {
	said, err := knowndefects.ParseFile(raw)
	if err != nil {
		return Draft{}, err
	}
	if !o.Clock().Before(said.Expires) {
		return Draft{}, verdict.Refuse(verdict.ConfigParse, file, "the list expired at %s", said.Expires)
	}
	s, err := knowndefects.New(file, digest.SetOf(raw), said)
	accept := func(e verify.Evidence) (verdict.Proof, error) {
		l, err := waiver.ParseList(e, o.Profile.Policy)
		return l.Proof(), err
	}
	number := func(s intoto.Statement) (int, error) {
		said, err := knowndefects.Parse(s)
		return said.Sequence, err
	}
	return Draft{Statement: s, role: policy.Officer, accept: accept, number: number}, err
}

// DraftDeclaration drafts the statement of a declaration, which the role signs
// that the policy names for its requirement.
func (o Officer) DraftDeclaration(file string, raw []byte) (Draft, error) {
	said, err := declaration.ParseFile(raw)
	if err != nil {
		return Draft{}, err
	}
	role, err := o.Profile.Policy.NewSession().DeclaringRole(said.Requirement)
	if err != nil {
		return Draft{}, err
	}
	if now := o.Clock(); !now.Before(said.Until) || said.Until.After(now.Add(declaration.MaxLife)) {
		return Draft{}, verdict.Refuse(verdict.ConfigParse, file, "until: %s, want a time in the next %d days", said.Until.Format(time.RFC3339), declaration.MaxLife/(24*time.Hour))
	}
	s, err := declaration.New(file, digest.SetOf(raw), said)
	accept := func(e verify.Evidence) (verdict.Proof, error) { return o.Profile.Policy.NewSession().Declaration(e) }
	number := func(s intoto.Statement) (int, error) {
		said, err := declaration.Parse(s)
		return said.Sequence, err
	}
	return Draft{Statement: s, role: role, accept: accept, number: number}, err
}

// DraftException drafts the statement of an exception.
func (o Officer) DraftException(artifact intoto.Subject, p exception.Predicate) (Draft, error) {
	s, err := waiver.NewException(artifact, p)
	accept := func(e verify.Evidence) (verdict.Proof, error) {
		x, err := waiver.ParseException(e, o.Profile.Policy)
		return x.Proof(), err
	}
	return Draft{Statement: s, role: policy.Officer, accept: accept}, err
}

// DraftAs drafts a statement that a role signs, and that has no revisions.
func (o Officer) DraftAs(role policy.Role, s intoto.Statement) Draft {
	return Draft{Statement: s, role: role, accept: func(e verify.Evidence) (verdict.Proof, error) {
		return o.Profile.Policy.Judge(e, policy.Ask{Role: role, Kind: s.PredicateType(), Subject: string(role), Whole: true})
	}}
}

// DraftSource drafts the summary of an accepted commit of the policy's repository,
// which the history of a reference includes.
func (o Officer) DraftSource(v *verdict.Verdict, commit, ref string) (Draft, error) {
	names := o.Profile.Records
	if names.Verifier == "" {
		return Draft{}, verdict.Refuse(verdict.Usage, "profile", "no records: section, which names the verifier and the address of the policy for a summary")
	}
	claim := vsa.Claim{Verifier: vsa.Verifier{ID: names.Verifier}, Policy: names.Policy, Resource: o.Profile.Policy.NewSession().Repository()}
	s, err := claim.Source(*v, commit, ref)
	return o.DraftAs(policy.Verifier, s), err
}

// Sign signs a draft and writes the bundle, unless the target has one with
// the same or a higher number. The written bundle is read back and judged as
// its consumers will.
func (o Officer) Sign(ctx context.Context, d Draft, to Target) (verdict.Proof, error) {
	v, err := verify.NewWith(o.Profile.TrustRoot, o.Profile.Policy.Verification())
	if err != nil {
		return verdict.Proof{}, err
	}
	if err := o.mayWrite(ctx, v, d, to); err != nil {
		return verdict.Proof{}, err
	}
	signer, err := signers{o.World, o.Profile, v}.signer(d.role, o.Key, o.Token)
	if err != nil {
		return verdict.Proof{}, err
	}
	bundle, e, err := signer.Statement(ctx, d.Statement)
	if err != nil {
		return verdict.Proof{}, err
	}
	if _, err := d.accept(e); err != nil {
		return verdict.Proof{}, fmt.Errorf("judging the signed statement, which was not written: %w", err)
	}
	w, err := o.OpenWriter(to.Dir)
	if err != nil {
		return verdict.Proof{}, err
	}
	if err := w.Put(ctx, to.Name, int64(len(bundle)), bytes.NewReader(bundle), store.PutOptions{IfAbsent: d.number == nil}); err != nil {
		return verdict.Proof{}, err
	}
	return o.readBack(ctx, v, d, to)
}

// readBack verifies the written bundle from its bytes on.
func (o Officer) readBack(ctx context.Context, v *verify.Verifier, d Draft, to Target) (verdict.Proof, error) {
	raw, err := o.read(ctx, to)
	if err != nil {
		return verdict.Proof{}, fmt.Errorf("reading back %q: %w", to.Name, err)
	}
	e, err := v.Attestation(raw)
	if err != nil {
		return verdict.Proof{}, fmt.Errorf("verifying %q after writing it: %w", to.Name, err)
	}
	if !bytes.Equal(e.Statement().Raw(), d.Statement.Raw()) {
		return verdict.Proof{}, verdict.Refuse(verdict.FileConflict, to.Name, "another process wrote this file at the same time; run the command again")
	}
	return d.accept(e)
}

func (o Officer) read(ctx context.Context, from Target) ([]byte, error) {
	place, err := o.openPlace(from.Dir)
	if err != nil {
		return nil, err
	}
	return store.Read(ctx, place, from.Name, maxBundle)
}

// mayWrite refuses to replace a bundle with a higher number, one with the
// same number and other content, and a file of another kind. An exception
// replaces nothing.
func (o Officer) mayWrite(ctx context.Context, v *verify.Verifier, d Draft, to Target) error {
	raw, err := o.read(ctx, to)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case d.number == nil:
		return verdict.Refuse(verdict.FileConflict, to.Name, "the file exists already; choose another name")
	}
	e, err := v.Attestation(raw)
	if err != nil {
		return verdict.Refuse(verdict.FileConflict, to.Name, "the file exists already and does not verify: %v", err)
	}
	if bytes.Equal(e.Statement().Raw(), d.Statement.Raw()) {
		return nil
	}
	before, err := d.number(e.Statement())
	if err != nil {
		return verdict.Refuse(verdict.FileConflict, to.Name, "the file exists already and is of another kind: %v", err)
	}
	number, err := d.number(d.Statement)
	if err != nil {
		return err
	}
	if number <= before {
		return verdict.Refuse(verdict.PolicyStale, to.Name, "the file at the target has number %d; use a higher number", before)
	}
	return nil
}

// TokenObserver is the token name of the identity that signs what it observed of
// builds.
const TokenObserver = "observer"

// DraftObserved drafts what an observer says of a build: the statement of a
// [buildrecord.Record].
func (o Officer) DraftObserved(s intoto.Statement) (Draft, error) {
	claim, err := provenance.Read(s)
	if err == nil {
		err = o.Profile.Policy.NewSession().AllowsSource(claim.Source.Repository)
	}
	return Draft{Statement: s, role: policy.Builder, accept: func(e verify.Evidence) (verdict.Proof, error) {
		if _, err := policy.States(o.Profile.Policy, e); err != nil {
			return verdict.Proof{}, err
		}
		first := s.Subjects()[0]
		return o.Profile.Policy.Judge(e, policy.Ask{Role: policy.Builder, Kind: e.Kind(), Subject: first.Name, Bytes: first.Digests})
	}}, err
}
