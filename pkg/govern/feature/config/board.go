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

// terms is for how many of its passes a reconciler is counted among those that
// live, after its last one.
const terms = 3

// World is what a reconciler works on and with.
type World struct {
	Site featurestore.Site
	// Registry is the features that the program knows, and Deeds what each of
	// them brings along.
	Registry feature.Registry
	Deeds    map[feature.Key]reconcile.Deeds
	Signer   reconcile.Signer
	// Statements tells what was signed, by which a site is mended.
	Statements reconcile.Statements
	Version    version.Version // of the program
	// Clock is the time. Default [time.Now].
	Clock func() time.Time
}

// Reconciler is the one that the configuration says. The directory of a site
// must have been prepared: see [featurestore.MakeSite].
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

// traceOf is the run that a transition belongs to; nil where none was begun.
func traceOf(ctx context.Context) *feature.Trace {
	now := carry.From(ctx)
	if now.IsZero() {
		return nil
	}
	return &feature.Trace{TraceID: now.Trace.String(), SpanID: now.Span.String(), InitialTraceID: now.Initial.String()}
}

// Told is shown what came of a pass, which is a run of its own.
type Told func(pass context.Context, did []reconcile.Pass, err error)

// Loop makes a pass at once and then one at least as often as the configuration
// says, until the context ends. What goes wrong is told, and tried again in the
// next.
func (c Config) Loop(ctx context.Context, r *reconcile.Reconciler, told Told) {
	for n := 0; ctx.Err() == nil; n++ {
		pass, end := span.Start(span.Anew(ctx), span.Command("feature.reconcile"))
		did, err := r.Once(pass)
		end(err)
		if ctx.Err() == nil { // what was interrupted is not told as if it had failed
			told(pass, did, err)
		}
		_ = transport.Sleep(ctx, c.pause(n)) // if it ends early, so does the loop
	}
}

// pause is the time after the nth pass: between three quarters of what the
// configuration says and all of it. It differs by the identity and from pass to
// pass, so that reconcilers that were started together do not go on together, and
// none goes with the programs that report as often.
func (c Config) pause(n int) time.Duration {
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%s/%d", c.Identity, n)
	const parts = 1 << 10
	share := time.Duration(sum.Sum32() % parts)
	return c.Every - c.Every/(4*parts)*share
}

// Ahead is what the next pass would do. Nothing is written, signed or swept: a
// pass is made over a copy of the features. Features that are nowhere yet, as
// those of a site that was not prepared, are announced in it.
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
