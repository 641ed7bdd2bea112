package span_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// setup is a context with a provider and without a receiver.
func setup(t *testing.T) (ctx context.Context, provider *span.Provider) {
	t.Helper()
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	ctx, provider, err := span.Setup(t.Context(), span.Config{Service: "test", Version: "v0"})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, provider
}

// TestIDsAreRealWithoutAReceiver: nobody is told, and a span has its ids all
// the same; without a provider there are none, and none are invented.
func TestIDsAreRealWithoutAReceiver(t *testing.T) {
	ctx, provider := setup(t)
	ctx, end := span.Start(ctx, span.Command("stage"))
	root := span.Of(ctx)
	inner, endInner := span.Start(ctx, span.Seal)
	child := span.Of(inner)
	endInner(errors.New("no"))
	end(nil)
	if root.IsZero() || child.IsZero() || root.Trace != child.Trace || root.Span == child.Span || root.Sampled {
		t.Errorf("root %+v, child %+v", root, child)
	}
	by, sums := provider.Tally().All()
	if len(by) != 2 || by[0].Name != span.Seal || by[0].Outcome != "internal" || by[1].Outcome != span.Done || sums[0].Count != 1 {
		t.Errorf("counted %v %v", by, sums)
	}
	bare, end := span.Start(t.Context(), span.Seal)
	end(nil)
	if now := span.Of(bare); !now.IsZero() || environ(bare) != nil {
		t.Errorf("without a provider: %+v", now)
	}
	if _, ids, conflict := span.Stamp(bare, trace.Create, trace.IDs{}); !ids.IsZero() || conflict != nil {
		t.Errorf("without a provider an object is stamped %+v", ids)
	}
}

// TestContinueTakesOnlyWhatIsWellFormed: otherwise the next span begins anew.
func TestContinueTakesOnlyWhatIsWellFormed(t *testing.T) {
	const parent, member = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "initial-trace-id=4bf92f3577b34da6a3ce929d0e0e4736"
	for name, c := range map[string]struct {
		parents []string
		baggage string
		taken   bool
	}{
		"both":              {[]string{parent}, member, true},
		"others' baggage":   {[]string{parent}, "user=alice", true},
		"none":              {nil, member, false},
		"malformed parent":  {[]string{parent[1:]}, member, false},
		"malformed baggage": {[]string{parent}, member[:30], false},
		"two parents":       {[]string{parent, parent}, member, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, _ := setup(t)
			ctx, err := span.Extract(ctx, http.Header{"Traceparent": c.parents, "Baggage": {c.baggage}})
			ctx, end := span.Start(ctx, span.Gate)
			defer end(nil)
			now := span.Of(ctx)
			if taken := now.Trace.String() == parent[3:35]; taken != c.taken || now.IsZero() || (err == nil) != (c.taken || c.parents == nil) {
				t.Errorf("goes on with %+v, %v", now, err)
			}
			out := strings.Join(environ(ctx), " ")
			if strings.Contains(out, "alice") || strings.Contains(out, member) != (c.taken && c.baggage == member) {
				t.Errorf("a child is told %s", out)
			}
		})
	}
}
