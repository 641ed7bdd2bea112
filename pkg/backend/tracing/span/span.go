// Package span begins and ends the actions of a run as OpenTelemetry spans, and
// brings their ids to other processes and back.
//
// The SDK is always there, so ids are always real: [Setup] without an exporter
// samples nothing, and each span still has its trace id and span id. Spans are
// sent, by OTLP over HTTP, only if the standard variables say where
// (OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT). Whether
// anybody receives them changes nothing about a command but the time it takes to
// give up, which is bounded.
//
// Nothing here is global: the provider travels in the context. A context that
// none was set up for has no ids, and whoever stamps an object with it stamps
// nothing: no id is invented.
//
//	ctx, provider, err := span.Setup(ctx, span.Config{Service: "waybill", Version: version})
//	defer provider.Shutdown(ctx)
//	ctx, end := span.Start(ctx, span.Seal, span.ArtifactFilename.String("lantern.tar.gz"))
//	err = seal(ctx)
//	end(err)
//
// There is one span for each act that somebody may ask about: a command, a step
// of a build, a signature, a promotion of one thing, a decision. There is none
// for a request or a repetition of one.
//
// Between processes a context travels as W3C Trace Context and Baggage: in the
// variables TRACEPARENT and BAGGAGE of processes that are ours, in headers
// between a client and the gate. A step of a build gets neither: it is a
// stranger, and what it makes must be the same in every run. Nor does the runner
// that puts it behind walls: it has nothing of ours that a step could find, and
// says all that it has to say to the process that started it.
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

// flush is how long the end of a command waits for spans to be taken.
const flush = 2 * time.Second

// scope names who makes the spans.
const scope = "github.com/waybill-release/waybill"

// Config is what a provider is made from.
type Config struct {
	Service string // service.name, unless OTEL_SERVICE_NAME is set
	Version string // service.version
	// Transport reaches the receiver. It is asked for only if there is one.
	Transport func() http.RoundTripper
	// Silent sends nothing, whatever the variables say: the command is offline.
	Silent bool
	// Serves says that the process answers others. Most of them have no receiver
	// and say that nobody records: that is no reason for it not to record.
	Serves bool
}

// Provider makes spans, until it is shut down.
type Provider struct {
	sdk    *sdk.TracerProvider
	tracer otel.Tracer
	tally  *Tally
}

// key is where a context holds the provider.
type key struct{}

// Setup returns a context in which spans can be started. What it could not set
// up is the error; the context and the provider can be used all the same, and
// send nothing.
func Setup(ctx context.Context, c Config) (context.Context, *Provider, error) {
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(c.Service), semconv.ServiceVersion(c.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	options := []sdk.TracerProviderOption{sdk.WithResource(about), sdk.WithSampler(sdk.NeverSample())}
	if err == nil && Wanted() && !c.Silent {
		var exporter sdk.SpanExporter
		if exporter, err = newExporter(ctx, c); err == nil {
			options = append(options, sdk.WithSampler(sampler(c)), sdk.WithBatcher(exporter))
		}
	}
	provider := sdk.NewTracerProvider(options...)
	p := &Provider{sdk: provider, tracer: provider.Tracer(scope, otel.WithInstrumentationVersion(c.Version)), tally: newTally()}
	return context.WithValue(ctx, key{}, p), p, err
}

// sampler records what a parent records, and whatever has none.
func sampler(c Config) sdk.Sampler {
	if c.Serves {
		return sdk.ParentBased(sdk.AlwaysSample(), sdk.WithRemoteParentNotSampled(sdk.AlwaysSample()))
	}
	return sdk.ParentBased(sdk.AlwaysSample())
}

// Wanted says that the environment names a receiver of spans.
func Wanted() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// newExporter sends by OTLP over HTTP, through the transport that everything
// goes through: the variables for certificates are not read, those of the
// transport are.
func newExporter(ctx context.Context, c Config) (sdk.SpanExporter, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && p != "http/protobuf" {
			return nil, errors.New(name + " is " + p + ": spans are sent as http/protobuf only")
		}
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithHTTPClient(transport.Client(c.Transport())))
}

// Tally is what has been counted of the spans that ended.
func (p *Provider) Tally() *Tally { return p.tally }

// Shutdown sends what is left, and gives up after a short while. It may be
// called with a context that has ended.
func (p *Provider) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flush)
	defer cancel()
	return p.sdk.Shutdown(ctx)
}

// of finds the provider of a context; nil if there is none.
func of(ctx context.Context) *Provider {
	p, _ := ctx.Value(key{}).(*Provider)
	return p
}

// Start begins an action within that of the context. What is returned ends it,
// with the error it ended with; it is to be called once.
func Start(ctx context.Context, name Name, attrs ...attribute.KeyValue) (context.Context, func(error)) {
	p := of(ctx)
	if p == nil {
		return ctx, func(error) {}
	}
	began := time.Now()
	ctx, s := p.tracer.Start(ctx, string(name), otel.WithAttributes(withoutSecrets(attrs)...))
	state := PipelineResult
	if name.isTask() {
		state = PipelineTaskResult
		s.SetAttributes(PipelineTaskRunID.String(s.SpanContext().SpanID().String()))
	} else {
		s.SetAttributes(PipelineRunID.String(s.SpanContext().TraceID().String()))
	}
	now := fromOTel(s.SpanContext())
	if now.Initial = carry.From(ctx).Initial; !now.Initial.IsZero() {
		s.SetAttributes(InitialTraceID.String(now.Initial.String()))
	}
	return carry.With(ctx, now), func(err error) {
		result := OutcomeOf(err)
		if err != nil {
			s.SetStatus(codes.Error, redact.Secrets(err.Error()))
			s.SetAttributes(ErrorType.String(result))
		}
		s.SetAttributes(state.String(conventional(err)))
		p.tally.ended(name, result, time.Since(began))
		s.End()
	}
}

// OutcomeOf is how an action ended, in one word: [Done], or what kind of no it
// came to.
func OutcomeOf(err error) string {
	if err == nil {
		return Done
	}
	return verdict.OutcomeOf(err).String()
}

// conventional is the same in the words of the semantic conventions.
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

// Of is the action of a context; the zero value if there is none.
func Of(ctx context.Context) trace.Context { return carry.From(ctx) }

// Set adds to what the action of a context says of itself.
func Set(ctx context.Context, attrs ...attribute.KeyValue) {
	otel.SpanFromContext(ctx).SetAttributes(withoutSecrets(attrs)...)
}

// withoutSecrets redacts what the attributes say: an address may have a password
// in it.
func withoutSecrets(attrs []attribute.KeyValue) []attribute.KeyValue {
	clean := slices.Clone(attrs)
	for i, a := range clean {
		if a.Value.Type() == attribute.STRING {
			clean[i] = a.Key.String(redact.Secrets(a.Value.AsString()))
		}
	}
	return clean
}

// Stamp decides with [trace.Stamp] what an object carries after the action of
// the context. In the context that it returns the action belongs to that
// object's life. If the action came with another beginning than the object has,
// the object keeps its own, and the span links to the object's last action.
func Stamp(ctx context.Context, op trace.Op, existing trace.IDs) (context.Context, trace.IDs, *trace.Conflict) {
	ids, conflict := trace.Stamp(op, Of(ctx), existing)
	if conflict != nil {
		Link(ctx, existing)
	}
	if !ids.Initial.IsZero() {
		ctx = carry.WithInitial(ctx, ids.Initial)
	}
	return ctx, ids, conflict
}

// Link lets the span of a context name another action: the last one on an
// object that is acted on now.
func Link(ctx context.Context, other trace.IDs) {
	if other.Trace.IsZero() {
		return
	}
	otel.SpanFromContext(ctx).AddLink(otel.Link{
		SpanContext: otel.NewSpanContext(otel.SpanContextConfig{TraceID: otel.TraceID(other.Trace), SpanID: otel.SpanID(other.Span), Remote: true}),
		Attributes:  []attribute.KeyValue{InitialTraceID.String(other.Initial.String())},
	})
}

// fromOTel is the same in our words.
func fromOTel(sc otel.SpanContext) trace.Context {
	return trace.Context{
		Trace: trace.ID(sc.TraceID()), Span: trace.SpanID(sc.SpanID()),
		Sampled: sc.IsSampled(), Random: sc.TraceFlags().IsRandom(),
	}
}

// Bridge lets OpenTelemetry say what went wrong in it through a logger of ours.
// It is for commands: what it sets is the process's.
func Bridge(ctx context.Context, logger *slog.Logger, inner logr.Logger) {
	api.SetLogger(inner)
	api.SetErrorHandler(api.ErrorHandlerFunc(func(err error) { logger.WarnContext(ctx, "spans are lost: "+err.Error()) }))
}
