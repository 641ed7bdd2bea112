package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Signer signs transitions as the policy's reconciler, and keeps the bundles in
// a place that is written once. It implements [reconcile.Signer].
type Signer struct {
	// By makes the signatures, in the role [policy.Reconciler].
	By       *sign.Signer
	Verifier *verify.Verifier
	Policy   policy.Policy
	// Statements is where the bundles are kept.
	Statements featurestore.Place
}

// Ready refuses a token or a key of somebody whom the policy does not let sign
// transitions. The token alone is asked where it tells; where it does not, or is
// not there just now, a certificate is waited for, which tells.
func (s Signer) Ready(ctx context.Context) error {
	who, err := s.By.As(ctx)
	if who == "" && (err == nil || verdict.OutcomeOf(err) == verdict.Unavailable) {
		return s.By.Prepare(ctx)
	}
	return err
}

// Sign signs the statement about a transition, and keeps it as
// NAME.sigstore.json. One that is there is kept, if it says the same and the same
// role signed it: then an earlier run came this far, and its signature is in the
// log already.
func (s Signer) Sign(ctx context.Context, name string, st intoto.Statement) (string, error) {
	file := plan.BundleName(name)
	switch there, err := s.there(ctx, file, st); {
	case err != nil:
		return "", err
	case there:
		return file, nil
	}
	bundle, e, err := s.By.Statement(ctx, st)
	if err != nil {
		return "", err
	}
	if err := errors.Join(s.kept().May(e, file), same(file, e, st)); err != nil {
		return "", fmt.Errorf("judging what was signed, which was not written: %w", err)
	}
	err = s.Statements.Put(ctx, file, int64(len(bundle)), bytes.NewReader(bundle), store.PutOptions{IfAbsent: true, MediaType: "application/json"})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return "", fmt.Errorf("keeping the statement about a transition: %w", err)
	}
	// Whether it was written now or somebody was quicker: what counts is what
	// can be read.
	switch there, err := s.there(ctx, file, st); {
	case err != nil:
		return "", err
	case !there:
		return "", &verdict.UnavailableError{Place: s.Statements.URI(), Op: "reading back " + file, Err: errors.New("it was written, and is not there")}
	}
	return file, nil
}

// there reports whether the statement is kept already. What is there and is
// something else is refused: it is never written over.
func (s Signer) there(ctx context.Context, file string, want intoto.Statement) (bool, error) {
	e, err := s.kept().Evidence(ctx, file)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil && verdict.OutcomeOf(err) == verdict.Unavailable:
		return false, err
	case err == nil:
		err = same(file, e, want)
	}
	if err != nil {
		return false, fmt.Errorf("%q at %q is not the statement that belongs there; find out who wrote it, and who can write there: %w", file, s.Statements.URI(), err)
	}
	return true, nil
}

// kept are the statements as whoever goes by them reads them.
func (s Signer) kept() effective.Statements {
	return effective.Statements{At: s.Statements, Policy: s.Policy, Verifier: s.Verifier}
}

// same refuses a statement that is not the one that is wanted.
func same(file string, e verify.Evidence, want intoto.Statement) error {
	if !bytes.Equal(e.Statement().Raw(), want.Raw()) {
		return verdict.Refuse(verdict.FileConflict, file, "it says another thing of the transition than the features do")
	}
	return nil
}
