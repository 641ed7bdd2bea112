// Package carry brings a [trace.Context] through a [context.Context], for those
// that write it into their logs and records. It knows no library for traces, so
// that commands which are small may use it.
//
//	ctx = carry.With(ctx, now)
//	log.InfoContext(ctx, "sealed") // its handler asks carry.From(ctx)
package carry

import (
	"context"
	"net/http"
	"sync"

	"github.com/waybill-release/waybill/pkg/value/trace"
)

// key is where a context holds it.
type key struct{}

// With returns a context in which the action is this one.
func With(ctx context.Context, now trace.Context) context.Context {
	return context.WithValue(ctx, key{}, now)
}

// From is the action of a context; the zero value if there is none.
func From(ctx context.Context) trace.Context {
	now, _ := ctx.Value(key{}).(trace.Context)
	return now
}

// WithInitial returns a context whose action belongs to the life of an object
// that began in a trace.
func WithInitial(ctx context.Context, initial trace.ID) context.Context {
	if run, ok := ctx.Value(lifeKey{}).(*life); ok {
		run.met(initial)
	}
	now := From(ctx)
	now.Initial = initial
	return context.WithValue(With(ctx, now), ownKey{}, initial)
}

// ownKey is where a context holds the beginning that an object says itself. What
// a run came with is somebody's offer.
type ownKey struct{}

// lifeKey is where a context holds what a run found out.
type lifeKey struct{}

// life is of which object a run turned out to be.
type life struct {
	mu      sync.Mutex // owns the rest
	initial trace.ID
	known   bool
	several bool
}

// met notes the beginning of an object that is acted on; zero is one that does
// not say.
func (l *life) met(initial trace.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.several = l.several || l.known && l.initial != initial
	l.initial, l.known = initial, true
}

// Run returns the context of a run that will find out on which object it acts.
// Its own lines say so from then on: see [Line].
func Run(ctx context.Context) context.Context {
	return context.WithValue(ctx, lifeKey{}, &life{})
}

// Line is what a line of a log says of its action. A line of the run itself,
// which began before it was known on what it acts, says what was found out from
// then on, whatever the run came with; and nothing if that were several objects
// of different beginnings.
func Line(ctx context.Context) trace.Context {
	now := From(ctx)
	run, ok := ctx.Value(lifeKey{}).(*life)
	if own, _ := ctx.Value(ownKey{}).(trace.ID); !ok || !own.IsZero() && own == now.Initial {
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

// Inject writes the action of the context into the headers of a request to a
// service of ours.
func Inject(ctx context.Context, h http.Header) {
	now := From(ctx)
	if now.IsZero() {
		return
	}
	h.Set(trace.HeaderTraceparent, now.Traceparent())
	if b := now.Baggage(); b != "" {
		h.Set(trace.HeaderBaggage, b)
	}
}
