// Package span records the actions of a run as OpenTelemetry spans, and passes
// their ids to and from other processes.
//
// The SDK is always active, so ids are always real: [Setup] without an exporter
// samples nothing, and each span still has its trace id and span id. Spans are
// sent, by OTLP over HTTP, only if the standard variables name a collector
// (OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT). If the
// collector is unreachable, the command still succeeds, after a bounded wait.
//
// Nothing here is global: the context carries the provider. A context without
// one has no ids, and objects are then not stamped: no id is invented.
//
//	ctx, provider, err := span.Setup(ctx, span.Config{Service: "waybill", Version: version})
//	defer provider.Shutdown(ctx)
//	ctx, end := span.Start(ctx, span.Seal, span.ArtifactFilename.String("lantern.tar.gz"))
//	err = seal(ctx)
//	end(err)
//
// There is one span for each act of interest: a command, a build step, a
// signature, the promotion of one object, a decision. Requests and retries have
// none.
//
// Between processes a context is propagated as W3C Trace Context and Baggage:
// in the variables TRACEPARENT and BAGGAGE of our own processes, and in headers
// between a client and the gate. A build step gets neither: it is untrusted,
// and its output must be the same in every run. Nor does the runner that
// isolates the step: a step must not find our ids there, and the runner reports
// everything to the process that started it.
//
// Other projects should not import this package: it changes without notice.
package span

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	api "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/redact"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// flush is how long the end of a command waits until spans are sent.
const flushTimeout = 2 * time.Second

// scope is the instrumentation scope of our spans.
const scope = "github.com/waybill-release/waybill"

// Config configures a provider.
type Config struct {
	Service string // service.name, unless OTEL_SERVICE_NAME is set
	Version string // service.version
	// Transport reaches the collector. It is called only if there is one.
	Transport func() http.RoundTripper
	// Silent sends nothing, whatever the variables say: the command is offline.
	Silent bool
	// Serves says that the process is a server. Most callers have no collector
	// and send the flag "not sampled": the server records all the same.
	Serves bool
}

// Provider creates spans until it is shut down.
type Provider struct {
	sdk    *sdk.TracerProvider
	tracer otel.Tracer
	tally  *Tally
}

type key struct{}

// Setup returns a context in which spans can be started. The error says what
// could not be set up; context and provider work all the same, but send
// nothing.
func Setup(ctx context.Context, c Config) (context.Context, *Provider, error) {
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(c.Service), semconv.ServiceVersion(c.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	options := []sdk.TracerProviderOption{sdk.WithResource(about), sdk.WithSampler(sdk.NeverSample())}
	if err == nil && wanted() && !c.Silent {
		var exporter sdk.SpanExporter
		if exporter, err = newExporter(ctx, c); err == nil {
			options = append(options, sdk.WithSampler(sampler(c)), sdk.WithBatcher(exporter))
		}
	}
	provider := sdk.NewTracerProvider(options...)
	p := &Provider{sdk: provider, tracer: provider.Tracer(scope, otel.WithInstrumentationVersion(c.Version)), tally: &Tally{all: map[Ended]Sum{}}}
	return context.WithValue(ctx, key{}, p), p, err
}

// sampler follows the decision of the parent, and records spans without one.
func sampler(c Config) sdk.Sampler {
	if c.Serves {
		return sdk.ParentBased(sdk.AlwaysSample(), sdk.WithRemoteParentNotSampled(sdk.AlwaysSample()))
	}
	return sdk.ParentBased(sdk.AlwaysSample())
}

// wanted reports whether the environment names a collector.
func wanted() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// newExporter sends by OTLP over HTTP, through our transport: of the standard
// variables for certificates none is read, only the transport's own.
func newExporter(ctx context.Context, c Config) (sdk.SpanExporter, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && p != "http/protobuf" {
			return nil, errors.New(name + " is " + p + ": only http/protobuf is supported")
		}
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithHTTPClient(transport.Client(c.Transport())))
}

// Tally counts the ended spans.
func (p *Provider) Tally() *Tally { return p.tally }

// Shutdown sends the remaining spans, for a limited time. ctx may have ended.
func (p *Provider) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	return p.sdk.Shutdown(ctx)
}

// Start begins an action within that of the context. The returned function ends
// it with its error; call it once.
func Start(ctx context.Context, name Name, attrs ...attribute.KeyValue) (context.Context, func(error)) {
	p, _ := ctx.Value(key{}).(*Provider)
	if p == nil {
		return ctx, func(error) {}
	}
	began := time.Now()
	ctx, s := p.tracer.Start(ctx, string(name), otel.WithAttributes(withoutSecrets(attrs)...))
	state := pipelineResult
	if name.isTask() {
		state = pipelineTaskResult
		s.SetAttributes(pipelineTaskRunID.String(s.SpanContext().SpanID().String()))
	} else {
		s.SetAttributes(pipelineRunID.String(s.SpanContext().TraceID().String()))
	}
	now := fromOTel(s.SpanContext())
	if now.Initial = carry.From(ctx).Initial; !now.Initial.IsZero() {
		s.SetAttributes(initialTraceID.String(now.Initial.String()))
	}
	return carry.With(ctx, now), func(err error) {
		result := OutcomeOf(err)
		if err != nil {
			s.SetStatus(codes.Error, redact.Secrets(err.Error()))
			s.SetAttributes(errorTypeKey.String(result))
		}
		s.SetAttributes(state.String(conventional(err)))
		p.tally.ended(name, result, time.Since(began))
		s.End()
	}
}

// OutcomeOf describes in one word how an action ended: [Done], or the kind of
// its error.
func OutcomeOf(err error) string {
	if err == nil {
		return Done
	}
	return verdict.OutcomeOf(err).String()
}

// conventional returns the attributes of the semantic conventions.
func conventional(err error) string {
	switch o := OutcomeOf(err); {
	case err == nil:
		return "success"
	case errors.Is(err, context.Canceled):
		return "cancellation"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case o == verdict.Refused.String(), o == verdict.Malformed.String():
		return "failure"
	}
	return "error"
}

// Of returns the action of a context, or the zero value.
func Of(ctx context.Context) trace.Context { return carry.From(ctx) }

// Set adds attributes to the action of the context.
func Set(ctx context.Context, attrs ...attribute.KeyValue) {
	otel.SpanFromContext(ctx).SetAttributes(withoutSecrets(attrs)...)
}

// withoutSecrets redacts attribute values: an address may contain a password.
func withoutSecrets(attrs []attribute.KeyValue) []attribute.KeyValue {
	clean := slices.Clone(attrs)
	for i, a := range clean {
		if a.Value.Type() == attribute.STRING {
			clean[i] = a.Key.String(redact.Secrets(a.Value.AsString()))
		}
	}
	return clean
}

// Stamp decides with [trace.Stamp] which trace annotations an object gets from
// the action of the context. In the returned context the action belongs to the
// trace that created the object. If the action came with another origin than
// the object has, the object keeps its own, and the span links to the object's
// last action.
func Stamp(ctx context.Context, op trace.Op, existing trace.IDs) (context.Context, trace.IDs, *trace.Conflict) {
	ids, conflict := trace.Stamp(op, Of(ctx), existing)
	if conflict != nil {
		link(ctx, existing)
	}
	if !ids.Initial.IsZero() {
		ctx = carry.WithInitial(ctx, ids.Initial)
	}
	return ctx, ids, conflict
}

// link links the span of a context to another action: the last one on an object
// that is acted on now.
func link(ctx context.Context, other trace.IDs) {
	if other.Trace.IsZero() {
		return
	}
	otel.SpanFromContext(ctx).AddLink(otel.Link{
		SpanContext: otel.NewSpanContext(otel.SpanContextConfig{TraceID: otel.TraceID(other.Trace), SpanID: otel.SpanID(other.Span), Remote: true}),
		Attributes:  []attribute.KeyValue{initialTraceID.String(other.Initial.String())},
	})
}

// fromOTel converts an OpenTelemetry span context to ours.
func fromOTel(sc otel.SpanContext) trace.Context {
	return trace.Context{
		Trace: trace.ID(sc.TraceID()), Span: trace.SpanID(sc.SpanID()),
		Sampled: sc.IsSampled(), Random: sc.TraceFlags().IsRandom(),
	}
}

// Bridge sends errors and logs of OpenTelemetry to our logger. It is for
// commands only, because it changes global settings of the process.
func Bridge(ctx context.Context, logger *slog.Logger, inner logr.Logger) {
	api.SetLogger(inner)
	api.SetErrorHandler(api.ErrorHandlerFunc(func(err error) { logger.WarnContext(ctx, "spans are lost: "+err.Error()) }))
}
