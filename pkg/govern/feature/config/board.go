package config

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/release/plan"
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
