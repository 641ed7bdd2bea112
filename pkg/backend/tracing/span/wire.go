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

// Continue continues the action of another, trusted process: its trace ids
// become part of signed records. Without a traceparent the context is
// unchanged. Malformed values are an error, and the context stays as it was:
// the next span begins a new trace.
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

// Anew returns a context without an action: the next span begins a new trace. A
// server uses it, because a server is one run and its requests belong to
// others.
func Anew(ctx context.Context) context.Context {
	return carry.Run(carry.With(otel.ContextWithSpanContext(ctx, otel.SpanContext{}), trace.Context{}))
}

// The variables of a child process that carry an action.
const (
	envTraceparent = "TRACEPARENT"
	envBaggage     = "BAGGAGE"
)

// FromEnviron is [Continue] with the variables of the parent process.
func FromEnviron(ctx context.Context) (context.Context, error) {
	return Continue(ctx, os.Getenv(envTraceparent), os.Getenv(envBaggage))
}

// Extract is [Continue] with the headers of a request, for authenticated
// callers. What one request turns out to concern says nothing about another.
func Extract(ctx context.Context, h http.Header) (context.Context, error) {
	ctx = carry.Run(ctx)
	parents := h.Values(carry.HeaderTraceparent)
	if len(parents) > 1 {
		return ctx, errors.New("the request has several traceparent headers, want one")
	}
	return Continue(ctx, strings.Join(parents, ""), strings.Join(h.Values(carry.HeaderBaggage), ","))
}
