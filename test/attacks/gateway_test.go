package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// gatehouse is the gate as a service, on a real listener, in front of the lab.
type gatehouse struct {
	t      *testing.T
	w      *world
	server *serve.Server
	host   string // of the service
	image  string // that is accepted
	limits serve.Limits
	policy atomic.Pointer[policy.Policy]
	keys   func(context.Context, string) (caller.Keys, error)
	open   func(string) (*registry.Remote, error)
	log    lines
	tls    *serve.TLS // none is plain HTTP
	// approvals is where used approvals are written; none unless a test says so.
	approvals serve.Ledger
	verbs     string // that are granted
	proxy     *serve.Proxy
	record    io.Writer
	clock     func() time.Time
	// features is how it goes by features, as a gate of features says; nil not at
	// all.
	features *serve.Features
	gate     *componentbase.Gate
	cluster  *serve.ClusterUse
}

const gateAudience = "https://gate.example.test"

// staged is the image of the world's release in the lab's registry, once.
var staged struct {
	once sync.Once
	name string
	err  error
}

func stagedImage(t *testing.T, w *world) string {
	t.Helper()
	r := w.attacked(t)
	staged.once.Do(func() {
		var to *registry.Remote
		var d registry.Descriptor
		if to, staged.err = registry.OpenRemote(w.Lab.Registry+"/gated", http.DefaultTransport); staged.err != nil {
			return
		}
		if d, staged.err = r.images.Resolve(context.Background(), repository, r.version.String()); staged.err != nil {
			return
		}
		_, staged.err = registry.Copy(context.Background(), to, r.images, repository, d)
		staged.name = w.Lab.Registry + "/gated/" + repository + "@" + d.Digest.String()
	})
	if staged.err != nil {
		t.Fatal(staged.err)
	}
	return staged.name
}

func openGatehouse(t *testing.T, edits ...func(*gatehouse)) *gatehouse {
	t.Helper()
	w := theWorld(t)
	g := &gatehouse{t: t, w: w, image: stagedImage(t, w)}
	g.policy.Store(&w.profile.Policy)
	g.keys = serve.IssuerKeys(http.DefaultTransport)
	g.open = func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, http.DefaultTransport) }
	g.limits = serve.Limits{PerCaller: 100_000, Parting: time.Millisecond}
	g.verbs, g.record, g.clock = "verify, promote", &g.log, time.Now
	for _, edit := range edits {
		edit(g)
	}
	issuer, subject := w.Lab.Identity("verifier")
	_, neighbour := w.Lab.Identity("release")
	book := must[caller.Book](t)(caller.Parse(fmt.Appendf(nil, `audience: %s
callers: [{name: promoter, token: {issuer: %q, subject: %q}}, {name: neighbour, token: {issuer: %[2]q, subject: %[6]q}}]
grants:
- {caller: promoter, verbs: [%[5]s], from: [%[4]s/gated/, %[4]s/open/], to: [%[4]s/gated/, %[4]s/open/, prod.example.test/, registry.example.test/, "registry.example.test:443/"], channels: [none, stable]}
- {caller: neighbour, verbs: [verify, pull], from: [%[4]s/gated/], to: [%[4]s/gated/], channels: [none]}
`, gateAudience, issuer, subject, w.Lab.Registry, g.verbs, neighbour)))
	g.server = must[*serve.Server](t)(serve.New(t.Context(), serve.World{
		Load: func(context.Context) (serve.Basis, error) {
			return serve.Basis{PolicyRequest: gate.PolicyRequest{Policy: *g.policy.Load(), Verifier: w.verifier}, Callers: book}, nil
		},
		Open: g.open, Keys: g.keys, Clock: g.clock, Log: slog.New(slog.NewJSONHandler(g.record, nil)), Record: g.record, Approvals: g.approvals,
		Features: g.features, Gate: g.gate, Proxy: g.proxy, Cluster: g.cluster,
	}, g.limits))
	traced, _, err := span.Setup(t.Context(), span.Config{Service: "gate", Silent: true, Serves: true}) // as the command does
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(traced)
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- g.server.Serve(ctx, serve.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", TLS: g.tls}, nil, func(callers, _ string) { listening <- callers })
	}()
	select {
	case g.host = <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *gatehouse) token(claims map[string]any) string {
	g.t.Helper()
	all := map[string]any{"aud": gateAudience}
	for name, value := range claims {
		all[name] = value
	}
	return must[string](g.t)(g.w.Lab.Mint("verifier", all))
}

// neighbour is the token of another caller, who is to be answered whatever the
// first one does.
func (g *gatehouse) neighbour() string {
	g.t.Helper()
	return must[string](g.t)(g.w.Lab.Mint("release", map[string]any{"aud": gateAudience}))
}

// body asks about an image.
func (g *gatehouse) body(image string) string {
	return string(must[[]byte](g.t)(json.Marshal(api.Request{Schema: api.SchemaRequest, Decisions: []api.Question{
		{Verb: api.Verify, Image: image, Version: g.w.version.String()},
	}})))
}

// request is one to the service that is good; a test changes one thing of it.
func (g *gatehouse) request() *http.Request {
	req := must[*http.Request](g.t)(http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+g.host+"/v1/decisions", strings.NewReader(g.body(g.image))))
	req.Header.Set("Authorization", "Bearer "+g.token(nil))
	return req
}

// do sends it, and returns the status, the codes that were said, and the body.
func (g *gatehouse) do(req *http.Request) (int, []verdict.Code, string) {
	g.t.Helper()
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw := must[[]byte](g.t)(io.ReadAll(resp.Body))
	var said struct {
		api.Answer
		Problem verdict.Finding `json:"problem"`
	}
	_ = json.Unmarshal(raw, &said) // what is no answer of ours says nothing
	var codes []verdict.Code
	if said.Problem.Code != "" {
		codes = append(codes, said.Problem.Code)
	}
	for _, d := range said.Decisions {
		if d.Verdict == nil { // what an auditor is told has none
			continue
		}
		for _, f := range d.Verdict.Findings {
			codes = append(codes, f.Code)
		}
	}
	observe(g.t, codes...)
	return resp.StatusCode, codes, string(raw)
}

func body(req *http.Request, text string) {
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	req.GetBody = nil
}

// TestGatewayRequests changes one thing of a request that is accepted.
func TestGatewayRequests(t *testing.T) {
	g := openGatehouse(t)
	other := g.w.Lab.Registry + "/gated/" + repository + "@" + digest.Of(digest.SHA256, []byte("another")).String()
	claim := func(name string, value any) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+g.token(map[string]any{name: value})) }
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	path := func(p string) func(*http.Request) {
		return func(r *http.Request) { r.URL.Opaque = "//" + g.host + p }
	}
	said := func(edit func(string) string) func(*http.Request) {
		return func(r *http.Request) { body(r, edit(g.body(g.image))) }
	}
	for _, c := range []struct {
		row, name string
		change    func(*http.Request)
		status    int
		code      verdict.Code
	}{
		{"", "nothing", func(*http.Request) {}, 200, ""},
		{"H01", "a token that nobody signed", header("Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0."), 401, verdict.TokenAlg},
		{"H01", "a token signed with a secret", header("Authorization", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.AAAA"), 401, verdict.TokenAlg},
		{"H03", "a token for the authority", claim("aud", "sigstore"), 401, "TOKEN_AUD"},
		{"H03", "a token for two", claim("aud", []string{gateAudience, "sigstore"}), 401, "TOKEN_AUD"},
		{"H04", "another account of the issuer", claim("sub", "eve@lab.invalid"), 401, verdict.TokenSub},
		{"H05", "an old token", claim("exp", time.Now().Add(-time.Hour).Unix()), 401, verdict.TokenTime},
		{"H05", "a token of tomorrow", claim("nbf", time.Now().Add(24*time.Hour).Unix()), 401, verdict.TokenTime},
		{"H05", "no token", func(r *http.Request) { r.Header.Del("Authorization") }, 401, verdict.TokenParse},
		{"H05", "two tokens", func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+g.token(nil)) }, 401, verdict.TokenParse},
		{"H05", "a password", func(r *http.Request) { r.SetBasicAuth("promoter", "password") }, 401, verdict.TokenParse},
		{"H09", "an image that says that it was verified", func(r *http.Request) {
			header("X-Waybill-Verified", "true")(r)
			body(r, g.body(other))
		}, 403, verdict.Missing},
		{"H09", "a question that brings its answer", said(func(s string) string { return strings.Replace(s, `"verb"`, `"outcome":"accepted","verb"`, 1) }), 422, verdict.Usage},
		{"H12", "two slashes", path("//v1/decisions"), 404, ""},
		{"H12", "an encoded letter", path("/v1/%64ecisions"), 404, ""},
		{"H12", "an encoded slash", path("/v1%2fdecisions"), 404, ""},
		{"H12", "a way back", path("/v1/../v1/decisions"), 404, ""},
		{"H12", "a slash at the end", path("/v1/decisions/"), 404, ""},
		{"H12", "another method", func(r *http.Request) { r.Method = http.MethodGet }, 405, ""},
		{"H16", "a million dots", header("Authorization", "Bearer "+strings.Repeat(".", 1_000_000)), 431, ""},
		{"H16", "some thousand dots", header("Authorization", "Bearer "+strings.Repeat(".", 8_000)), 401, verdict.TokenParse},
		{"H17", "a compressed body", header("Content-Encoding", "gzip"), 422, verdict.Usage},
		{"H18", "an image of another host", said(func(s string) string { return strings.Replace(s, g.w.Lab.Registry, "169.254.169.254", 1) }), 403, verdict.NotGranted},
		{"H18", "a host that looks like one that is granted", said(func(s string) string {
			return strings.Replace(s, g.w.Lab.Registry, strings.Replace(g.w.Lab.Registry, ":", ".evil.test:", 1), 1)
		}), 403, verdict.NotGranted},
		{"H18", "a port with a name after it", said(func(s string) string {
			return strings.Replace(s, g.w.Lab.Registry, g.w.Lab.Registry+".evil.test", 1)
		}), 422, verdict.Usage},
		{"H19", "an address for an image", said(func(s string) string { return strings.Replace(s, g.w.Lab.Registry, "HtTp://"+g.w.Lab.Registry, 1) }), 422, verdict.Usage},
		{"H20", "a name that rewrites the terminal", said(func(s string) string {
			return strings.Replace(s, "/gated/", "/gated/\\u001b[2J\\u202e", 1)
		}), 422, verdict.Usage},
		{"H22", "a template", said(func(s string) string { return strings.Replace(s, "/gated/", "/gated/{{.}}<script>/", 1) }), 422, verdict.Usage},
		{"H24", "an image that is a flag", said(func(s string) string { return strings.Replace(s, g.w.Lab.Registry, "--policy", 1) }), 422, verdict.Usage},
		{"", "a destination that is not granted", said(func(s string) string {
			return strings.Replace(strings.Replace(s, `"verify"`, `"promote"`, 1), `"version"`, `"to":"evil.example.test/prod","version"`, 1)
		}), 403, verdict.NotGranted},
		{"", "a destination that is", said(func(s string) string {
			return strings.Replace(strings.Replace(s, `"verify"`, `"promote"`, 1), `"version"`, `"to":"prod.example.test/lantern","channel":"stable","version"`, 1)
		}), 200, ""},
		{"", "one of two that is not granted", said(func(s string) string {
			return strings.Replace(s, `"decisions":[`, fmt.Sprintf(`"decisions":[{"verb":"verify","image":"evil.example.test/x@sha256:%s"},`, strings.Repeat("0", 64)), 1)
		}), 403, verdict.NotGranted},
		{"", "a key twice", said(func(s string) string { return strings.Replace(s, `"verb"`, `"verb":"promote","verb"`, 1) }), 422, verdict.Usage},
		{"", "half of it", said(func(s string) string { return s[:len(s)/2] }), 422, verdict.Usage},
		{"", "another schema", said(func(s string) string { return strings.Replace(s, "request/v1", "request/v2", 1) }), 422, verdict.Usage},
		{"", "nothing changed, after all that", func(*http.Request) {}, 200, ""},
	} {
		t.Run(strings.TrimSpace(c.row+" "+c.name), func(t *testing.T) {
			req := g.request()
			c.change(req)
			status, codes, raw := g.do(req)
			if status != c.status || c.code != "" && (len(codes) != 1 || codes[0] != c.code) {
				t.Errorf("%d %v, want %d %s: %s", status, codes, c.status, c.code, raw)
			}
			if (status == http.StatusOK) != (c.status == http.StatusOK) {
				t.Error("it is a yes that should be none, or none that should be one")
			}
		})
	}
	// H21: what must not be said is said nowhere.
	log := g.log.String()
	if strings.Contains(log, "eyJ") || strings.Contains(log, "password") || strings.Contains(log, "\x1b") || strings.Contains(log, "\u202e") {
		t.Error("the log has a token, or what rewrites a terminal")
	}
	page := httptest.NewRecorder()
	g.server.Admin().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/statusz", nil))
	if strings.Contains(page.Body.String(), "<script") || strings.Contains(page.Body.String(), "eyJ") {
		t.Error("the page has what a request brought")
	}
}

// TestGatewayIssuer: keys come from where the issuer says, over the way that
// it may say, or from nowhere (H07, H08).
func TestGatewayIssuer(t *testing.T) {
	var leaked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Store(true)
	}))
	defer elsewhere.Close()
	var handle atomic.Pointer[http.HandlerFunc]
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handle.Load())(w, r) }))
	defer issuer.Close()
	ask := serve.IssuerKeys(http.DefaultTransport)
	const keys = `{"keys":[{"kty":"EC","crv":"P-256","kid":"one","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`
	for _, c := range []struct {
		name string
		said func() string
		good bool
	}{
		{"itself", func() string { return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuer.URL, issuer.URL+"/keys") }, true},
		{"another issuer", func() string { return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, elsewhere.URL, issuer.URL+"/keys") }, false},
		{"no keys", func() string { return fmt.Sprintf(`{"issuer":%q}`, issuer.URL) }, false},
		{"a redirect", func() string { return "" }, false},
		{"keys of the machine's own", func() string {
			return fmt.Sprintf(`{"issuer":%q,"jwks_uri":"http://169.254.169.254/keys"}`, issuer.URL)
		}, false},
		{"keys in a file", func() string { return fmt.Sprintf(`{"issuer":%q,"jwks_uri":"file:///etc/passwd"}`, issuer.URL) }, false},
	} {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch said := c.said(); {
			case r.URL.Path == "/keys":
				_, _ = io.WriteString(w, keys)
			case said == "":
				http.Redirect(w, r, elsewhere.URL, http.StatusFound)
			default:
				_, _ = io.WriteString(w, said)
			}
		})
		handle.Store(&handler)
		if _, err := ask(t.Context(), issuer.URL); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if leaked.Load() {
		t.Error("a redirect was followed")
	}
}

// TestGatewayAnswersInTime: whatever a registry does, the caller is told before
// it goes away that nothing was decided (H10), and nobody's credentials went
// anywhere (H08).
func TestGatewayAnswersInTime(t *testing.T) {
	silence := make(chan struct{})
	var asked, leaked atomic.Int64
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
		select {
		case <-silence:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(silence)
	g := openGatehouse(t, func(g *gatehouse) {
		g.limits.Deadline = 300 * time.Millisecond
		g.open = func(string) (*registry.Remote, error) {
			return registry.OpenRemote(strings.TrimPrefix(slow.URL, "http://"), http.DefaultTransport)
		}
	})
	status, codes, raw := g.do(g.request())
	if status != http.StatusServiceUnavailable || len(codes) != 1 || codes[0] != verdict.PlaceDown {
		t.Errorf("%d %v: %s", status, codes, raw)
	}
	if asked.Load() == 0 || leaked.Load() != 0 {
		t.Errorf("the registry was asked %d times, and shown %d tokens", asked.Load(), leaked.Load())
	}
}

// TestGatewayRemembers: a decision is made once, until what it rests on
// changes (H23).
func TestGatewayRemembers(t *testing.T) {
	g := openGatehouse(t)
	if status, _, raw := g.do(g.request()); status != 200 || strings.Contains(raw, `"cached"`) {
		t.Fatalf("%d %s", status, raw)
	}
	if status, _, raw := g.do(g.request()); status != 200 || !strings.Contains(raw, `"cached":true`) {
		t.Errorf("%d %s", status, raw)
	}
	text := string(must[[]byte](t)(os.ReadFile(g.w.Path("policy.yaml"))))
	_, subject := g.w.Lab.Identity("release")
	stricter := must[policy.Policy](t)(policy.Parse([]byte(strings.Replace(text, subject, "nobody@lab.invalid", 1)), nil))
	g.policy.Store(&stricter)
	if err := g.server.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, codes, _ := g.do(g.request()); status != 403 || len(codes) == 0 {
		t.Errorf("by a policy that refuses: %d %v", status, codes)
	}
	g.policy.Store(&g.w.profile.Policy)
	if err := g.server.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := g.do(g.request()); status != 200 {
		t.Errorf("by the first policy again: %d", status)
	}
}

// TestGatewayBearsALot: too many at once are sent away, and none of them is let
// in (429); who asks for names without end does not fill the metrics (H15);
// after all that nothing is left behind.
func TestGatewayBearsALot(t *testing.T) {
	g := openGatehouse(t, func(g *gatehouse) { g.limits.AtOnce, g.limits.Queue, g.limits.PerCaller = 2, 2, 400 })
	g.do(g.request())
	series := func() int {
		w := httptest.NewRecorder()
		g.server.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return strings.Count(w.Body.String(), "\n")
	}
	token := g.token(nil)
	var statuses sync.Map
	send := func(i int) {
		image := fmt.Sprintf("evil-%d.example.test/x/y%d@sha256:%064d", i, i, i)
		if i%2 == 0 {
			image = g.image
		}
		req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.host+"/v1/decisions", strings.NewReader(g.body(image))))
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		said, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		n, _ := statuses.LoadOrStore(resp.StatusCode, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		if resp.StatusCode == http.StatusTooManyRequests && (resp.Header.Get("Retry-After") == "" || !strings.Contains(string(said), "retry after")) {
			t.Errorf("it does not say when to come again: %s", said)
		}
	}
	flood := func(n int) {
		var wait sync.WaitGroup
		for w := range 32 {
			wait.Go(func() {
				for i := w; i < n; i += 32 {
					send(i)
				}
			})
		}
		wait.Wait()
	}
	flood(1_000)
	before, kinds := runtime.NumGoroutine(), series()
	flood(10_000)
	http.DefaultClient.CloseIdleConnections()
	if now := series(); now > kinds+10 { // a code that was not seen before is a line; a name is none
		t.Errorf("the metrics had %d lines, and have %d", kinds, now)
	}
	if now := runtime.NumGoroutine(); now > before+20 {
		t.Errorf("there were %d goroutines, and there are %d", before, now)
	}
	for _, status := range []int{http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests} {
		if _, seen := statuses.Load(status); !seen {
			t.Errorf("nobody was answered %d", status)
		}
	}
	statuses.Range(func(status, n any) bool {
		if s := status.(int); s != 200 && s != 403 && s != 429 {
			t.Errorf("%d were answered %d", n.(*atomic.Int64).Load(), s)
		}
		return true
	})
}
