package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// terms is how many pass intervals after its last pass a reconciler still counts as
// live.
const terms = 3

// World is what a reconciler works with: store, features, tasks and signer.
type World struct {
	Site featurestore.Site
	// Registry has the features that the program knows, and Deeds their tasks.
	Registry feature.Registry
	Deeds    map[feature.Key]reconcile.Deeds
	Signer   reconcile.Signer
	// Statements reads the signed statements, to repair a site.
	Statements reconcile.Statements
	Version    version.Version // of the program
	// Clock is the time. Default [time.Now].
	Clock func() time.Time
}

// Reconciler makes the reconciler of the configuration. If the site is a directory,
// it must be prepared: see [featurestore.MakeSite].
func (c Config) Reconciler(w World) (*reconcile.Reconciler, error) {
	if w.Clock == nil {
		w.Clock = time.Now
	}
	members, err := reconcile.NewMembers(w.Site.Members, c.Identity, terms*c.Every, w.Clock)
	if err != nil {
		return nil, err
	}
	all := c.with(w, members)
	all.Self.Tidy = w.Site.Tidy
	return reconcile.New(all)
}

// with is the configuration of the reconciler itself.
func (c Config) with(w World, live reconcile.Live) reconcile.Config {
	return reconcile.Config{
		Store: w.Site.Features, Registry: w.Registry, Deeds: w.Deeds, Expect: c.Expect, Wishes: c.Wishes,
		Self:   reconcile.Self{Identity: c.Identity, Version: w.Version, Live: live, Statements: w.Statements, Trace: traceOf},
		Signer: w.Signer, Clock: w.Clock,
	}
}

// traceOf is the trace of a transition; nil without one.
func traceOf(ctx context.Context) *feature.Trace {
	now := carry.From(ctx)
	if now.IsZero() {
		return nil
	}
	return &feature.Trace{TraceID: now.Trace.String(), SpanID: now.Span.String(), InitialTraceID: now.Initial.String()}
}

// Told receives the result of a pass, with the trace context of that pass.
type Told func(pass context.Context, did []reconcile.Pass, err error)

// Loop makes a pass now, and then at least one in each interval of the configuration,
// until the context ends. Errors are passed to told, and the next pass tries again.
func (c Config) Loop(ctx context.Context, r *reconcile.Reconciler, told Told) {
	for n := 0; ctx.Err() == nil; n++ {
		pass, end := span.Start(span.Anew(ctx), span.Command("feature.reconcile"))
		did, err := r.Once(pass)
		end(err)
		if ctx.Err() == nil { // an interruption is no failure
			told(pass, did, err)
		}
		_ = transport.Sleep(ctx, c.pause(n)) // it ends early only with ctx
	}
}

// pause is the time after the nth pass: between 75 and 100 % of the interval. It
// depends on the identity and on n: reconcilers that start together do not keep
// writing at the same time, and neither do programs that report at the same interval.
func (c Config) pause(n int) time.Duration {
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%s/%d", c.Identity, n)
	const parts = 1 << 10
	share := time.Duration(sum.Sum32() % parts)
	return c.Every - c.Every/(4*parts)*share
}

// Ahead returns what the next pass would do. Nothing is written, signed or cleaned
// up: the pass works on a copy of the features. Features that are not announced yet,
// such as at a site that is not prepared, are announced in the copy.
func (c Config) Ahead(ctx context.Context, w World) ([]reconcile.Pass, error) {
	if w.Clock == nil {
		w.Clock = time.Now
	}
	d := &draft{Store: w.Site.Features, written: map[feature.Key]feature.Feature{}, would: map[feature.Key]string{}}
	w.Site.Features, w.Signer, w.Deeds = d, d, d.deeds(w)
	r, err := reconcile.New(c.with(w, nil))
	if err != nil {
		return nil, err
	}
	passes, err := r.Once(ctx)
	for i, p := range passes {
		if would := d.would[p.Key]; would != "" {
			passes[i].Did = joined(p.Did, would)
		}
	}
	return passes, err
}

// Ready implements [reconcile.Signer] for a draft.
func (d *draft) Ready(context.Context) error { return nil }

// Sign implements [reconcile.Signer] for a draft, which signs nothing.
func (d *draft) Sign(_ context.Context, name string, _ intoto.Statement) (string, error) {
	return plan.BundleName(name), nil
}

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
