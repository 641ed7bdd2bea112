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

// Signer signs transitions as the policy's reconciler, and stores the bundles in a
// place where nothing is overwritten. It implements [reconcile.Signer].
type Signer struct {
	// By makes the signatures, in the role [policy.Reconciler].
	By       *sign.Signer
	Verifier *verify.Verifier
	Policy   policy.Policy
	// Statements is where the bundles are stored.
	Statements featurestore.Place
}

// Ready refuses a token or key that the policy does not allow to sign transitions. If
// the token does not name its identity, or cannot be read now, it requests a
// certificate, which does.
func (s Signer) Ready(ctx context.Context) error {
	who, err := s.By.As(ctx)
	if who.Subject == "" && (err == nil || verdict.OutcomeOf(err) == verdict.Unavailable) {
		return s.By.Prepare(ctx)
	}
	return err
}

// Sign signs the statement about a transition, and stores it as NAME.sigstore.json.
// An existing bundle is kept if it has the same statement, signed in the same role: an
// earlier run made it, and its signature is already in the log.
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
		return "", fmt.Errorf("checking the new signature, which was not stored: %w", err)
	}
	err = s.Statements.Put(ctx, file, int64(len(bundle)), bytes.NewReader(bundle), store.PutOptions{IfAbsent: true, MediaType: "application/json"})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return "", fmt.Errorf("storing the statement about a transition: %w", err)
	}
	// Another program may have written it first: what counts is what can be
	// read.
	switch there, err := s.there(ctx, file, st); {
	case err != nil:
		return "", err
	case !there:
		return "", &verdict.UnavailableError{Place: s.Statements.URI(), Op: "reading back " + file, Err: errors.New("written, but not found")}
	}
	return file, nil
}

// there reports whether the statement is already stored. A different one is refused,
// and never overwritten.
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
		return false, fmt.Errorf("%q at %q is not the expected statement; find out who can write there, and who did: %w", file, s.Statements.URI(), err)
	}
	return true, nil
}

// kept reads the stored statements, with the same checks as a gate.
func (s Signer) kept() effective.Statements {
	return effective.Statements{At: s.Statements, Policy: s.Policy, Verifier: s.Verifier}
}

// same refuses a statement with other bytes than the expected one.
func same(file string, e verify.Evidence, want intoto.Statement) error {
	if !bytes.Equal(e.Statement().Raw(), want.Raw()) {
		return verdict.Refuse(verdict.FileConflict, file, "the statement about the transition differs from the feature")
	}
	return nil
}
