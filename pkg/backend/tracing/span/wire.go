package span

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"

	otel "go.opentelemetry.io/otel/trace"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// Continue goes on with the action of another process, which must be trusted:
// what it says of a trace becomes part of signed records. Without a traceparent
// there is nothing to go on with. What is not well formed is an error, and the
// context stays as it was: the next span begins a trace of its own.
func Continue(ctx context.Context, traceparent, baggage string) (context.Context, error) {
	if traceparent == "" {
		return ctx, nil
	}
	now, err := trace.ParseTraceparent(traceparent)
	if err != nil {
		return ctx, err
	}
	if now.Initial, err = trace.ParseBaggage(baggage); err != nil {
		return ctx, err
	}
	flags := otel.TraceFlags(0).WithSampled(now.Sampled).WithRandom(now.Random)
	ctx = otel.ContextWithRemoteSpanContext(ctx, otel.NewSpanContext(otel.SpanContextConfig{
		TraceID: otel.TraceID(now.Trace), SpanID: otel.SpanID(now.Span), TraceFlags: flags, Remote: true,
	}))
	return carry.With(ctx, now), nil
}

// Anew returns a context that belongs to no action: the next span begins a trace
// of its own. A service is one run, and what it is asked is others'.
func Anew(ctx context.Context) context.Context {
	return carry.Run(carry.With(otel.ContextWithSpanContext(ctx, otel.SpanContext{}), trace.Context{}))
}

// FromEnviron is [Continue] with what the process that started this one said.
func FromEnviron(ctx context.Context) (context.Context, error) {
	return Continue(ctx, os.Getenv(trace.EnvTraceparent), os.Getenv(trace.EnvBaggage))
}

// Extract is [Continue] with the headers of a request. It is for callers that
// were let in. What one request turns out to be about says nothing of another.
func Extract(ctx context.Context, h http.Header) (context.Context, error) {
	ctx = carry.Run(ctx)
	parents := h.Values(trace.HeaderTraceparent)
	if len(parents) > 1 {
		return ctx, errors.New("a request has one traceparent, not several")
	}
	return Continue(ctx, strings.Join(parents, ""), strings.Join(h.Values(trace.HeaderBaggage), ","))
}
