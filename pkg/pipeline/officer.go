package pipeline

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Officer signs what is said outside of any release: by the policy's officer
// policies, lists of known defects and exceptions, and by whoever signs off
// sign-offs.
//
//	draft, err := officer.DraftException(artifact, predicate)
//	proof, err := officer.Sign(ctx, draft, pipeline.Target{Dir: ".", Name: "a.exception.sigstore.json"})
type Officer struct {
	Profile profile.Profile
	World
	Token token.Source
	// Key signs in place of an identity, if it is set.
	Key crypto.Signer
}

// Draft is a statement that is ready to be signed, and what it must prove once
// it is.
type Draft struct {
	Statement intoto.Statement
	// role is as whom it is signed.
	role policy.Role
	// accept judges what was signed, as whoever relies on it will.
	accept func(verify.Evidence) (verdict.Proof, error)
	// number is that of a revision, zero where there are none.
	number func(intoto.Statement) (int, error)
}

// Target is the file that a bundle is written to.
type Target struct{ Dir, Name string }

// maxBundle bounds a bundle that is read back.
const maxBundle = 4 << 20

// DraftPolicy makes the statement that the raw text is the policy, as which it
// was parsed.
func (o Officer) DraftPolicy(file string, raw []byte, p policy.Policy) (Draft, error) {
	if p.Sequence() == 0 {
		return Draft{}, verdict.Refuse(verdict.ConfigParse, file, "the policy has no sequence: number it, so that nobody can put an older one in its place")
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

// DraftDefects makes the statement of a list of known defects.
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

// DraftException makes the statement of an exception.
func (o Officer) DraftException(artifact intoto.Subject, p exception.Predicate) (Draft, error) {
	s, err := waiver.NewException(artifact, p)
	accept := func(e verify.Evidence) (verdict.Proof, error) {
		x, err := waiver.ParseException(e, o.Profile.Policy)
		return x.Proof(), err
	}
	return Draft{Statement: s, role: policy.Officer, accept: accept}, err
}

// Sign signs a draft, and writes the bundle where nothing of a higher number
// is. What was written is read back and judged as whoever relies on it will.
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
		return verdict.Proof{}, fmt.Errorf("judging what was signed, which was not written: %w", err)
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

// readBack verifies what was written, from its bytes on.
func (o Officer) readBack(ctx context.Context, v *verify.Verifier, d Draft, to Target) (verdict.Proof, error) {
	raw, err := o.read(ctx, to)
	if err != nil {
		return verdict.Proof{}, fmt.Errorf("reading back %q: %w", to.Name, err)
	}
	e, err := v.Attestation(raw)
	if err != nil {
		return verdict.Proof{}, fmt.Errorf("verifying %q, as it was written: %w", to.Name, err)
	}
	if !bytes.Equal(e.Statement().Raw(), d.Statement.Raw()) {
		return verdict.Proof{}, verdict.Refuse(verdict.FileConflict, to.Name, "somebody else wrote it at the same time")
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

// mayWrite refuses to replace a bundle of a higher number, one of the same
// number that says something else, and a file that is none of ours. An
// exception replaces nothing.
func (o Officer) mayWrite(ctx context.Context, v *verify.Verifier, d Draft, to Target) error {
	raw, err := o.read(ctx, to)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case d.number == nil:
		return verdict.Refuse(verdict.FileConflict, to.Name, "there is such a file already; name another")
	}
	e, err := v.Attestation(raw)
	if err != nil {
		return verdict.Refuse(verdict.FileConflict, to.Name, "there is such a file already, and it does not verify: %v", err)
	}
	if bytes.Equal(e.Statement().Raw(), d.Statement.Raw()) {
		return nil
	}
	before, err := d.number(e.Statement())
	if err != nil {
		return verdict.Refuse(verdict.FileConflict, to.Name, "there is such a file already, and it is something else: %v", err)
	}
	number, err := d.number(d.Statement)
	if err != nil {
		return err
	}
	if number <= before {
		return verdict.Refuse(verdict.PolicyStale, to.Name, "number %d is signed already; give this one a higher number than that", before)
	}
	return nil
}
