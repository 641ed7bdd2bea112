package span

import (
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"
)

// TestSampler: a service records what its callers do not, for they mostly have
// no receiver; a command heeds whoever started it.
func TestSampler(t *testing.T) {
	from := func(flags otel.TraceFlags) sdk.SamplingParameters {
		parent := otel.NewSpanContext(otel.SpanContextConfig{TraceID: otel.TraceID{1}, SpanID: otel.SpanID{1}, TraceFlags: flags, Remote: true})
		return sdk.SamplingParameters{ParentContext: otel.ContextWithRemoteSpanContext(t.Context(), parent), TraceID: parent.TraceID()}
	}
	for name, row := range map[string]struct {
		serves bool
		flags  otel.TraceFlags
		want   sdk.SamplingDecision
	}{
		"command, recorded above":     {false, otel.FlagsSampled, sdk.RecordAndSample},
		"command, not recorded above": {false, 0, sdk.Drop},
		"service, recorded above":     {true, otel.FlagsSampled, sdk.RecordAndSample},
		"service, not recorded above": {true, 0, sdk.RecordAndSample},
	} {
		if got := sampler(Config{Serves: row.serves}).ShouldSample(from(row.flags)).Decision; got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}
