package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

const (
	askingTrace = "0af7651916cd43dd8448eb211c80319c"
	askingSpan  = "b7ad6b7169203331"
)

// collected is a span as the collector writes it to a file.
type collected struct {
	Trace      string `json:"traceId"`
	ID         string `json:"spanId"`
	Parent     string `json:"parentSpanId"`
	Name       string `json:"name"`
	Attributes []struct {
		Key   string
		Value struct{ StringValue string }
	}
	Status struct{ Code int }

	service string
}

func (c collected) attribute(key string) string {
	for _, a := range c.Attributes {
		if a.Key == key {
			return a.Value.StringValue
		}
	}
	return ""
}

// collector is the OpenTelemetry collector: OTLP over HTTP in, a file out.
type collector struct {
	endpoint, file string
}

func openCollector(t *testing.T) collector {
	t.Helper()
	program, dir, address := process.Peer(t, "otelcol"), t.TempDir(), process.Address(t)
	c := collector{endpoint: "http://" + address, file: filepath.Join(dir, "spans.json")}
	writeText(t, filepath.Join(dir, "config.yaml"), fmt.Sprintf(`receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {file: {path: %q, flush_interval: 100ms}}
service:
  pipelines: {traces: {receivers: [otlp], exporters: [file]}}
`, address, c.file))
	process.Start(t, process.Server{Name: "OpenTelemetry collector", Version: "v0.161.0", Args: []string{program, "--config", filepath.Join(dir, "config.yaml")}, Ready: address})
	return c
}

// spans waits until the collector has written the span of a name, and returns
// all that it has written.
func (c collector) spans(t *testing.T, name string) (all []collected) {
	t.Helper()
	eventually(t, "a span "+name+" in the file of the collector", func() (there bool, err error) {
		if all, err = c.read(); err != nil {
			return false, err
		}
		return slices.ContainsFunc(all, func(x collected) bool { return x.Name == name }), nil
	})
	return all
}

// eventually asks until the answer is yes, for a minute.
func eventually(t *testing.T, what string, yes func() (bool, error)) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for {
		there, err := yes()
		if there {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("in a minute, never %s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c collector) read() (all []collected, err error) {
	raw, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	type attributes []struct {
		Key   string
		Value struct{ StringValue string }
	}
	for line := range bytes.Lines(raw) {
		var export struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes attributes }
				ScopeSpans []struct{ Spans []collected }
			}
		}
		if err := json.Unmarshal(line, &export); err != nil { // the last line may not be written whole yet
			return nil, fmt.Errorf("a line of the collector's file: %w", err)
		}
		for _, r := range export.ResourceSpans {
			for _, scope := range r.ScopeSpans {
				for _, x := range scope.Spans {
					x.service = collected{Attributes: r.Resource.Attributes}.attribute("service.name")
					all = append(all, x)
				}
			}
		}
	}
	return all, err
}

// TestCollector has the OpenTelemetry collector receive what stage and release
// send: one trace, that of the process which started them, with a span for each
// act below the act that it is a part of.
func TestCollector(t *testing.T) {
	t.Parallel()
	c := openCollector(t)
	s := small(t)
	s.Env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.endpoint, "TRACEPARENT=00-" + askingTrace + "-" + askingSpan + "-01"}
	want(t, s.Stage(t.Context()), 0)
	want(t, s.Release(t.Context()), 0)
	all := c.spans(t, "waybill.release")
	byID := map[string]collected{askingSpan: {}}
	for _, x := range all {
		if x.Trace != askingTrace || x.service != "waybill" {
			t.Errorf("%s stands in trace %s of service %q", x.Name, x.Trace, x.service)
		}
		byID[x.ID] = x
	}
	if len(byID) != len(all)+1 {
		t.Errorf("%d spans have %d ids", len(all), len(byID)-1)
	}
	for _, span := range []struct {
		name, parent string
		count        int
		says         map[string]string // an empty value is any
	}{
		{"waybill.stage", "", 1, map[string]string{"cicd.pipeline.name": "waybill stage", "cicd.pipeline.run.id": askingTrace, "cicd.pipeline.result": "success"}},
		{"build", "waybill.stage", 1, map[string]string{"vcs.ref.head.revision": "", "vcs.repository.url.full": "", "artifact.version": scene.Version}},
		{"build step", "build", 2, map[string]string{"cicd.pipeline.task.name": "", "cicd.pipeline.task.type": "build", "cicd.pipeline.task.run.result": "success"}},
		{"sign", "waybill.stage", 1, map[string]string{"cicd.pipeline.task.name": "sign"}},
		{"seal", "waybill.stage", 1, nil},
		{"promote", "waybill.stage", 1, nil},
		{"waybill.release", "", 1, map[string]string{"cicd.pipeline.name": "waybill release", "cicd.pipeline.result": "success"}},
		{"promote", "waybill.release", 1, nil},
	} {
		count := 0
		for _, x := range all {
			if parent, known := byID[x.Parent]; x.Name != span.name || known && parent.Name != span.parent {
				continue
			} else if count++; !known || x.Status.Code == 2 {
				t.Errorf("%s is below a span that was not sent, %s, or failed: %+v", x.Name, x.Parent, x.Status)
			}
			for key, value := range span.says {
				if got := x.attribute(key); got == "" || value != "" && got != value {
					t.Errorf("%s says %s=%q, want %q", span.name, key, got, value)
				}
			}
		}
		if count != span.count {
			t.Errorf("%d spans below %q are called %s, want %d", count, span.parent, span.name, span.count)
		}
	}
	saw(t, row{Kind: "Telemetry", Server: "OpenTelemetry collector", Version: "0.161.0", Works: "spans of stage and release by OTLP over HTTP: one trace, parents, attributes"})
}

// prometheus is Prometheus, which scrapes a gate and loads the shipped rules.
type prometheus struct {
	address string
}

// shippedAlerts are the rules that come with the product.
const shippedAlerts = "alerts.yaml"

func openPrometheus(t *testing.T, gate string) prometheus {
	t.Helper()
	program, dir, p := process.Program(t, "prometheus", "prometheus"), t.TempDir(), prometheus{process.Address(t)}
	raw, err := os.ReadFile(filepath.Join("..", "..", "cmd", "waybill", "deploy", shippedAlerts))
	if err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(dir, shippedAlerts)
	// All as it is shipped, but an alert does not wait until it has been true for minutes.
	writeText(t, rules, regexp.MustCompile(`(?m)^    for: .*$`).ReplaceAllString(string(raw), "    for: 0s"))
	out, err := exec.Command(process.Program(t, "promtool", "prometheus"), "check", "rules", filepath.Join("..", "..", "cmd", "waybill", "deploy", shippedAlerts)).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	writeText(t, filepath.Join(dir, "prometheus.yaml"), fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs: [{job_name: waybill-gate, static_configs: [{targets: [%q]}]}]
`, rules, gate))
	process.Start(t, process.Server{Name: "prometheus", Version: "2.42", Args: []string{
		program, "--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + p.address,
	}, Ready: "http://" + p.address + "/-/ready"})
	return p
}

// version is the version without what the distributor adds.
func (p prometheus) version(t *testing.T) string {
	t.Helper()
	var said struct{ Version string }
	if err := p.get(t, "status/buildinfo", &said); err != nil {
		t.Fatal(err)
	}
	parts := strings.SplitN(said.Version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// get reads an answer of Prometheus' API.
func (p prometheus) get(t *testing.T, path string, into any) error {
	t.Helper()
	response, err := http.Get("http://" + p.address + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(&struct{ Data any }{into})
}

// alerts are the alerts that fire.
func (p prometheus) alerts(t *testing.T) (firing []string, err error) {
	t.Helper()
	var said struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	err = p.get(t, "alerts", &said)
	for _, a := range said.Alerts {
		if a.State == "firing" {
			firing = append(firing, a.Labels["alertname"])
		}
	}
	return firing, err
}

// value is the one value of a query, or "".
func (p prometheus) value(t *testing.T, query string) (string, error) {
	t.Helper()
	var said struct{ Result []struct{ Value [2]any } }
	err := p.get(t, "query?query="+url.QueryEscape(query), &said)
	if err != nil || len(said.Result) != 1 {
		return "", err
	}
	return fmt.Sprint(said.Result[0].Value[1]), nil
}

// fires waits until exactly these alerts fire.
func (p prometheus) fires(t *testing.T, names ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("exactly the alerts %q", names), func() (bool, error) {
		firing, err := p.alerts(t)
		slices.Sort(firing)
		if !slices.Equal(slices.Compact(firing), names) {
			err = errors.Join(err, fmt.Errorf("the alerts %q fire", firing))
			return false, err
		}
		return true, err
	})
}

// TestPrometheus has Prometheus scrape the gate. The shipped alerts fire when the
// gate refuses, cannot decide, rejects callers or is away, and not before.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	s := staged(t)
	issuer, subject := s.Lab.Identity("verifier")
	registry := openSilent(t)
	g := openGate(t, s, "prometheus", promoterOf(issuer, subject)+fmt.Sprintf("- {caller: promoter, verbs: [verify], from: [%[1]s/], to: [%[1]s/], channels: [none]}\n", registry))
	p := openPrometheus(t, g.admin)
	token := func(claims map[string]any) string {
		t.Helper()
		text, err := s.Lab.Mint("verifier", claims)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	decisions := func(outcome, count string) {
		t.Helper()
		eventually(t, count+" decisions "+outcome, func() (bool, error) {
			got, err := p.value(t, fmt.Sprintf("waybill_gate_decisions_total{outcome=%q}", outcome))
			return got == count, errors.Join(err, fmt.Errorf("%q", got))
		})
	}
	decisions("refused", "0")
	good := token(map[string]any{"aud": gateAudience})
	asked := func(want int, token, image string) {
		t.Helper()
		if status, said := g.ask(t, token, image); status != want {
			t.Fatalf("%d, want %d: %s", status, want, said)
		}
	}
	asked(http.StatusOK, good, g.image)
	decisions("accepted", "1")
	p.fires(t)
	missing := strings.Split(g.image, "@")[0] + "@" + digest.Of(digest.SHA256, []byte("not there")).String()
	asked(http.StatusForbidden, good, missing)
	p.fires(t, "WaybillGateRefuses")
	asked(http.StatusServiceUnavailable, good, registry+"/lantern@"+digest.Of(digest.SHA256, nil).String())
	p.fires(t, "WaybillGateRefuses", "WaybillGateUndecided")
	asked(http.StatusUnauthorized, token(nil), g.image)
	eventually(t, "a rejected request", func() (bool, error) {
		got, err := p.value(t, `waybill_gate_rejected_requests_total{code="TOKEN_AUD"}`)
		return got == "1", err
	})
	for range 30 {
		asked(http.StatusUnauthorized, token(nil), g.image)
	}
	p.fires(t, "WaybillGateRefuses", "WaybillGateTokensRejected", "WaybillGateUndecided")
	g.Kill(t)
	eventually(t, "WaybillGateDown", func() (bool, error) {
		firing, err := p.alerts(t)
		return slices.Contains(firing, "WaybillGateDown"), err
	})
	saw(t, row{
		Kind: "Telemetry", Server: "Prometheus", Version: p.version(t), Works: "scraping `/metrics` of the gate; the alerts of alerts.yaml about refusals, undecided requests, rejected callers and a gate that is down",
		Lacks: "growth of a counter from its first value on", Does: "an alert about rejected callers needs more than one rejection of a kind",
	})
}

// openSilent is the address of a registry that closes every connection.
func openSilent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}
