package stories

import (
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/waybill-release/waybill/test/scene"
)

// receiver takes spans by OTLP over HTTP, as a collector does.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex // owns the rest
	all     []*spans.Span
	service string
	wrong   []string
}

func openReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP answers one export.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, err := io.ReadAll(req.Body)
	var export collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &export)
	}
	if err != nil || req.Method != http.MethodPost || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" {
		r.wrong = append(r.wrong, req.Method+" "+req.URL.Path+" "+req.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range export.GetResourceSpans() {
		r.service = attribute(of.GetResource().GetAttributes(), "service.name")
		for _, scope := range of.GetScopeSpans() {
			r.all = append(r.all, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	answer, err := proto.Marshal(&collector.ExportTraceServiceResponse{})
	if err == nil {
		_, _ = w.Write(answer)
	}
}

// taken are the spans so far, and none are left.
func (r *receiver) taken(t *testing.T) []*spans.Span {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wrong) > 0 || r.service != "waybill" {
		t.Errorf("the receiver got %q of service %q", r.wrong, r.service)
	}
	all := r.all
	r.all = nil
	return all
}

func attribute(all []*common.KeyValue, key string) string {
	for _, a := range all {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// named are the spans of a name.
func named(all []*spans.Span, name string) (some []*spans.Span) {
	for _, s := range all {
		if s.GetName() == name {
			some = append(some, s)
		}
	}
	return some
}

const (
	askingTrace = "0af7651916cd43dd8448eb211c80319c"
	askingSpan  = "b7ad6b7169203331"
)

// TestT02OneSpanPerAct: a real receiver gets the spans of a stage: one trace,
// that of the process which started it; one span for each act, below the act
// that it is a part of, with the attributes of the conventions.
func TestT02OneSpanPerAct(t *testing.T) {
	t.Parallel()
	to := openReceiver(t)
	s := openProject(t, project(t, map[string]string{"release.yaml": scene.Quick})).Scene
	s.Env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + to.URL, "TRACEPARENT=00-" + askingTrace + "-" + askingSpan + "-01"}
	staged := s.Stage(t.Context(), "--log-format", "json")
	want(t, staged, 0)
	all := to.taken(t)
	linesOfActs(t, logLines(t, staged), all)
	byID := map[string]*spans.Span{askingSpan: {}}
	for _, x := range all {
		if hex.EncodeToString(x.GetTraceId()) != askingTrace {
			t.Errorf("%s stands in trace %x", x.GetName(), x.GetTraceId())
		}
		byID[hex.EncodeToString(x.GetSpanId())] = x
	}
	if len(byID) != len(all)+1 {
		t.Errorf("%d spans have %d ids", len(all), len(byID)-1)
	}
	for _, row := range []struct {
		name, parent string
		count        int
		says         map[string]string // an empty value is any
	}{
		{"waybill.stage", "", 1, map[string]string{"cicd.pipeline.name": "waybill stage", "cicd.pipeline.run.id": askingTrace, "cicd.pipeline.result": "success"}},
		{"build", "waybill.stage", 1, map[string]string{"vcs.ref.head.revision": "", "vcs.repository.url.full": "", "artifact.version": scene.Version}},
		{"build step", "build", 2, map[string]string{"cicd.pipeline.task.name": "", "cicd.pipeline.task.type": "build", "cicd.pipeline.task.run.result": "success", "vcs.ref.head.revision": ""}},
		{"sign", "waybill.stage", 1, map[string]string{"cicd.pipeline.task.name": "sign"}},
		{"seal", "waybill.stage", 1, nil},
		{"promote", "waybill.stage", 1, nil},
		{"gate", "waybill.stage", 1, nil},
	} {
		some := named(all, row.name)
		if len(some) != row.count {
			t.Errorf("%d spans are called %s, want %d", len(some), row.name, row.count)
		}
		for _, x := range some {
			parent := byID[hex.EncodeToString(x.GetParentSpanId())]
			if parent == nil || parent.GetName() != row.parent || x.GetStatus().GetCode() == spans.Status_STATUS_CODE_ERROR {
				t.Errorf("%s is below %v, with status %v", row.name, parent.GetName(), x.GetStatus())
			}
			for key, value := range row.says {
				if got := attribute(x.GetAttributes(), key); got == "" || value != "" && got != value {
					t.Errorf("%s says %s=%q, want %q", row.name, key, got, value)
				}
			}
		}
	}
	signatures := named(all, "signature")
	if len(signatures) < 4 {
		t.Errorf("there are %d signatures", len(signatures))
	}
	for _, x := range signatures {
		if !strings.HasPrefix(attribute(x.GetAttributes(), "artifact.attestation.hash"), "sha256:") {
			t.Errorf("a signature says %v", x.GetAttributes())
		}
	}
	for _, x := range all {
		if id := attribute(x.GetAttributes(), "cicd.pipeline.task.run.id"); x.GetName() != "waybill.stage" && id != hex.EncodeToString(x.GetSpanId()) {
			t.Errorf("%s is span %x and says that it is %s", x.GetName(), x.GetSpanId(), id)
		}
	}
}

// linesOfActs holds what a run said of an act against the span of that act: a
// line of the log leads to it, and not only to the run.
func linesOfActs(t *testing.T, lines []logLine, all []*spans.Span) {
	t.Helper()
	for _, x := range all {
		task, said := attribute(x.GetAttributes(), "cicd.pipeline.task.name"), ""
		switch x.GetName() {
		case "waybill.stage":
			said = "— build"
		case "build":
			said = "build lantern " + scene.Version
		case "build step":
			said = ": " + task + ", done in "
		case "sign":
			said = "signed "
		case "seal":
			said = "sealed "
		default:
			continue
		}
		id, found := hex.EncodeToString(x.GetSpanId()), false
		for _, l := range lines {
			if !strings.Contains(l.Msg, said) || x.GetName() == "sign" && !strings.Contains(l.Msg, "image manifests") {
				continue
			}
			found = true
			if l.Span != id {
				t.Errorf("%q was said in the span %s, and %s %s is %s", l.Msg, l.Span, x.GetName(), task, id)
			}
		}
		if !found {
			t.Errorf("no line says %q of %s", said, x.GetName())
		}
	}
}

// TestSpansOfFailures: a command that fails ends its span with an error,
// in which no secret stands.
func TestSpansOfFailures(t *testing.T) {
	t.Parallel()
	to := openReceiver(t)
	a := newAsker(t)
	for _, row := range []struct {
		args   []string
		code   int
		result string
		kind   string
	}{
		{[]string{"verify", "file", "file", "--key", "key.pub"}, 3, "error", "unavailable"},
		{[]string{"schema", "https://ci:hunter2hunter2@127.0.0.1/x"}, 2, "failure", "malformed"},
		{[]string{"schema", "policy"}, 0, "success", ""},
	} {
		r := a.with([]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + to.URL + "/v1/traces"}, row.args...)
		all := to.taken(t)
		if len(all) != 1 || !strings.HasPrefix(all[0].GetName(), "waybill.") {
			t.Fatalf("%q: %d spans\n%s", row.args, len(all), r.Stderr)
		}
		x := all[0]
		failed := x.GetStatus().GetCode() == spans.Status_STATUS_CODE_ERROR
		if r.Code != row.code || failed != (row.code != 0) || attribute(x.GetAttributes(), "cicd.pipeline.result") != row.result || attribute(x.GetAttributes(), "error.type") != row.kind {
			t.Errorf("%q ended with %d, its span with %v %v\n%s", row.args, r.Code, x.GetStatus(), x.GetAttributes(), r.Stderr)
		}
		if said := x.String(); strings.Contains(said, "hunter2") {
			t.Errorf("its span says %s", said)
		}
	}
	if a.with([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + to.URL}, question()[1:]...); len(to.taken(t)) != 0 {
		t.Error("a command that is offline sent spans")
	}
}

// TestNobodyTakesSpans: a receiver that is away, refuses or never answers
// changes neither what a command says on stdout nor how it ends, and is not
// waited for long.
func TestNobodyTakesSpans(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	away := httptest.NewServer(nil)
	away.Close()
	args := []string{"verify", "file", "file", "--key", "key.pub"}
	plain := a.with(nil, args...)
	for name, env := range map[string][]string{
		"away":         {"OTEL_EXPORTER_OTLP_ENDPOINT=" + away.URL},
		"silent":       {"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + silent.Addr().String()},
		"refusing":     {"OTEL_EXPORTER_OTLP_ENDPOINT=" + refusing.URL},
		"no address":   {"OTEL_EXPORTER_OTLP_ENDPOINT=:no:address:"},
		"another form": {"OTEL_EXPORTER_OTLP_ENDPOINT=" + refusing.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
	} {
		began := time.Now()
		r := a.with(env, args...)
		if took := time.Since(began); took > 30*time.Second { // two seconds are for the spans
			t.Errorf("%s: it took %s", name, took)
		}
		if r.Code != plain.Code || r.Stdout != plain.Stdout || !strings.Contains(r.Stderr, "spans") || !strings.HasSuffix(r.Stderr, plain.Stderr) && !strings.HasPrefix(r.Stderr, plain.Stderr) {
			t.Errorf("%s: ended with %d, want %d\n%s\n%s", name, r.Code, plain.Code, r.Stderr, plain.Stderr)
		}
	}
}
