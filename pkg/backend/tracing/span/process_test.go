package span_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// generations is set in a process of the chain to how many are to come.
const generations = "WAYBILL_TEST_GENERATIONS"

func TestMain(m *testing.M) {
	if left := os.Getenv(generations); left != "" {
		if err := generation(left); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// generation is one process of the chain: it says where it stands, and starts
// the next.
func generation(left string) error {
	ctx, provider, err := span.Setup(context.Background(), span.Config{Service: "chain", Version: "v0"})
	if err != nil {
		return err
	}
	defer func() { _ = provider.Shutdown(ctx) }()
	ctx, err = span.FromEnviron(ctx)
	if err != nil {
		return err
	}
	from := span.Of(ctx)
	ctx, end := span.Start(ctx, span.Command("chain"))
	defer end(nil)
	if from.IsZero() { // the user's process makes the object
		ctx, _, _ = span.Stamp(ctx, trace.Create, trace.IDs{})
	}
	now := span.Of(ctx)
	fmt.Println(now.Trace, now.Span, now.Initial, from.Span)
	if left == "1" {
		return nil
	}
	return next(ctx, left[1:])
}

// next starts the rest of the chain, each of which is a character.
func next(ctx context.Context, left string) error {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(environ(ctx), generations+"="+left)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// TestT07AChainOfThreeProcesses: through the environment each goes on with the
// trace of the one before, under its span, in the life of the same object.
func TestT07AChainOfThreeProcesses(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{generations + "=111"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d processes spoke:\n%s", len(lines), out)
	}
	seen := map[string]bool{}
	for i, line := range lines {
		at := strings.Split(line, " ") // trace, span, initial, parent
		first := strings.Split(lines[0], " ")
		if at[0] != first[0] || at[2] != first[0] || seen[at[1]] {
			t.Errorf("process %d stands at %s, the first at %s", i+1, line, lines[0])
		}
		if i == 0 && at[3] != "" || i > 0 && at[3] != strings.Split(lines[i-1], " ")[1] {
			t.Errorf("process %d is below span %q", i+1, at[3])
		}
		seen[at[1]] = true
	}
}

// TestT08Headers: a request of ours brings where it stands; the service goes on
// with it for a caller that it trusts, and begins anew for any other.
func TestT08Headers(t *testing.T) {
	ctx, _ := setup(t)
	ctx, end := span.Start(ctx, span.Command("promote.apply"))
	defer end(nil)
	ctx, _, _ = span.Stamp(ctx, trace.Create, trace.IDs{})
	var served trace.Context
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		own := span.Anew(ctx) // the provider is the process's, the action is not
		if r.Header.Get("Authorization") != "" {
			var err error
			if own, err = span.Extract(own, r.Header); err != nil {
				t.Error(err)
			}
		}
		own, end := span.Start(own, span.Gate)
		served = span.Of(own)
		end(nil)
	}))
	defer service.Close()
	for token, trusted := range map[string]bool{"": false, "Bearer x": true} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		carry.Inject(ctx, req.Header)
		if token != "" {
			req.Header.Set("Authorization", token)
		}
		resp, err := service.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		asked := span.Of(ctx)
		if served.IsZero() || served.Span == asked.Span || (served.Trace == asked.Trace) != trusted || (served.Initial == asked.Initial) != trusted {
			t.Errorf("trusted %t: asked in %+v, served in %+v", trusted, asked, served)
		}
	}
}

// TestT12PlainPropagators: what we write OpenTelemetry's own propagators read,
// and the other way round, so that traces of others' programs stay whole.
func TestT12PlainPropagators(t *testing.T) {
	ctx, _ := setup(t)
	ctx, end := span.Start(ctx, span.Command("stage"))
	defer end(nil)
	ctx, ids, _ := span.Stamp(ctx, trace.Create, trace.IDs{})
	ours := http.Header{}
	carry.Inject(ctx, ours)
	theirs := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	read := theirs.Extract(t.Context(), propagation.HeaderCarrier(ours))
	at := otel.SpanContextFromContext(read)
	if trace.ID(at.TraceID()) != ids.Trace || trace.SpanID(at.SpanID()) != ids.Span || baggage.FromContext(read).Member("initial-trace-id").Value() != ids.Initial.String() {
		t.Errorf("of %+v they read %v with %v", ids, at, baggage.FromContext(read))
	}
	written := http.Header{}
	theirs.Inject(read, propagation.HeaderCarrier(written))
	back, err := span.Extract(span.Anew(ctx), written)
	if now := span.Of(back); err != nil || now.Trace != ids.Trace || now.Span != ids.Span || now.Initial != ids.Initial {
		t.Errorf("%v is read as %+v, %v", written, now, err)
	}
	below, end := span.Start(back, span.Seal)
	end(nil)
	if now := span.Of(below); now.Trace != ids.Trace || now.Span == ids.Span {
		t.Errorf("what follows stands at %+v", now)
	}
}

// TestConflictLinks: an object that began elsewhere keeps its beginning, and the
// action goes on in the object's life.
func TestConflictLinks(t *testing.T) {
	ctx, _ := setup(t)
	ctx, err := span.Continue(ctx, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "initial-trace-id=4bf92f3577b34da6a3ce929d0e0e4736")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := span.Start(ctx, span.Seal)
	defer end(nil)
	existing := trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{1}, Initial: trace.ID{1}}
	ctx, ids, conflict := span.Stamp(ctx, trace.Update, existing)
	if conflict == nil || ids.Initial != existing.Initial || span.Of(ctx).Initial != existing.Initial {
		t.Errorf("%+v, %v, then %+v", ids, conflict, span.Of(ctx))
	}
	if env := strings.Join(environ(ctx), " "); !strings.Contains(env, "initial-trace-id="+existing.Initial.String()) {
		t.Errorf("a child is told %s", env)
	}
}

// environ is what a process of ours is told in its environment. It is empty
// without an action.
func environ(ctx context.Context) []string {
	now := span.Of(ctx)
	if now.IsZero() {
		return nil
	}
	env := []string{"TRACEPARENT=" + now.Traceparent()}
	if b := now.Baggage(); b != "" {
		env = append(env, "BAGGAGE="+b)
	}
	return env
}
