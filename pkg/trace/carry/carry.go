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

	"github.com/waybill-release/waybill/pkg/trace"
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
	now := From(ctx)
	now.Initial = initial
	return With(ctx, now)
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
