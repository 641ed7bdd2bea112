// Package carry stores a [trace.Context] in a [context.Context], for logs and
// records. It imports no tracing library, so small commands can use it.
//
//	ctx = carry.With(ctx, now)
//	log.InfoContext(ctx, "sealed") // its handler asks carry.From(ctx)
//
// Other projects should not import this package: it changes without notice.
package carry

import (
	"context"
	"net/http"
	"sync"

	"github.com/waybill-release/waybill/pkg/value/trace"
)

// key is the context key of the current action.
type key struct{}

// With returns a context with this action.
func With(ctx context.Context, now trace.Context) context.Context {
	return context.WithValue(ctx, key{}, now)
}

// From returns the action of a context, or the zero value.
func From(ctx context.Context) trace.Context {
	now, _ := ctx.Value(key{}).(trace.Context)
	return now
}

// WithInitial returns a context whose action concerns an object that was
// created in another trace.
func WithInitial(ctx context.Context, initial trace.ID) context.Context {
	if run, ok := ctx.Value(runKey{}).(*origin); ok {
		run.noteOrigin(initial)
	}
	now := From(ctx)
	now.Initial = initial
	return context.WithValue(With(ctx, now), originKey{}, initial)
}

// ownKey is the context key of the origin that an object itself records. The
// origin in the baggage of a run is only a proposal.
type originKey struct{}

// lifeKey is the context key of the origin that a run discovered.
type runKey struct{}

// life is the origin of the object that a run turned out to concern.
type origin struct {
	mu      sync.Mutex // guards the fields below
	initial trace.ID
	known   bool
	several bool
}

// met records the origin of an object that is acted on; zero means that the
// object names none.
func (l *origin) noteOrigin(initial trace.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.several = l.several || l.known && l.initial != initial
	l.initial, l.known = initial, true
}

// Run returns the context of a run that does not yet know the object it acts
// on. Once known, its own log lines name the object's origin: see [Line].
func Run(ctx context.Context) context.Context {
	return context.WithValue(ctx, runKey{}, &origin{})
}

// Line returns the trace context for a log line of its action. For a line of
// the run itself, it names the origin of the object that the run discovered,
// whatever the baggage said; or none, if there were several objects of
// different origins.
func Line(ctx context.Context) trace.Context {
	now := From(ctx)
	run, ok := ctx.Value(runKey{}).(*origin)
	if own, _ := ctx.Value(originKey{}).(trace.ID); !ok || !own.IsZero() && own == now.Initial {
		return now
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	switch {
	case run.several:
		now.Initial = trace.ID{}
	case run.known:
		now.Initial = run.initial
	}
	return now
}

// The headers of a request that carry an action.
const (
	HeaderTraceparent = "Traceparent"
	HeaderBaggage     = "Baggage"
)

// Inject writes the action of the context into the headers of a request to one
// of our services.
func Inject(ctx context.Context, h http.Header) {
	now := From(ctx)
	if now.IsZero() {
		return
	}
	h.Set(HeaderTraceparent, now.Traceparent())
	if b := now.Baggage(); b != "" {
		h.Set(HeaderBaggage, b)
	}
}
