package attacks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/caller"
)

// proxyBook is the book of the matrix of the proxy.
const proxyBook = `audience: %[1]s
callers:
- {name: kubelet, token: {issuer: %[2]q, subject: kubelet}}
- {name: ci, token: {issuer: %[2]q, subject: ci}}
- {name: promoter, token: {issuer: %[2]q, subject: promoter}}
- {name: crossing, token: {issuer: %[2]q, subject: crossing}}
grants:
- {caller: kubelet, verbs: [pull], from: [%[3]s/prod/], to: [%[3]s/prod/], channels: [none]}
- {caller: ci, verbs: [push], from: [%[3]s/open/], to: [%[3]s/open/], channels: [none]}
- {caller: ci, verbs: [pull], from: [%[3]s/prod/lantern], to: [%[3]s/prod/lantern], channels: [none]}
- {caller: promoter, verbs: [verify, promote, audit], from: [%[3]s/], to: [%[3]s/], channels: [none]}
- {caller: crossing, verbs: [pull, push], from: [%[3]s/prod/], to: [%[3]s/open/], channels: [none]}
- {caller: crossing, verbs: [pull, push], from: [%[3]s/prod/], to: [%[3]s/prod/], channels: [stable]}
`

// TestProxyMatrix asks the proxy for everything, by everybody, everywhere: what
// is not granted is answered 401 or 403, and never reaches the registry.
func TestProxyMatrix(t *testing.T) {
	w := theWorld(t)
	var reached atomic.Int64
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			reached.Add(1)
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer behind.Close()
	host := strings.TrimPrefix(behind.URL, "http://")
	issuer, _ := w.Lab.Identity("verifier")
	book := must[caller.Book](t)(caller.Parse(fmt.Appendf(nil, proxyBook, gateAudience, issuer, host)))
	s := must[*serve.Server](t)(serve.New(t.Context(), serve.World{
		Load: func(context.Context) (serve.Basis, error) {
			return serve.Basis{PolicyRequest: gate.PolicyRequest{Policy: w.profile.Policy, Verifier: w.verifier}, Callers: book}, nil
		},
		Open: func(string) (*registry.Remote, error) { return registry.OpenRemote(host, http.DefaultTransport) },
		Keys: serve.IssuerKeys(http.DefaultTransport), Clock: time.Now, Log: slog.New(slog.DiscardHandler), Record: io.Discard,
		Proxy: &serve.Proxy{Registry: host, Guarded: []string{host + "/prod/"}},
	}, serve.Limits{PerCaller: 1_000_000}))
	sum := "sha256:" + strings.Repeat("0", 64)
	may := func(who, method, repo, path string) bool {
		read := method == "GET" || method == "HEAD"
		switch who {
		case "kubelet":
			return read && strings.HasPrefix(repo, "prod/")
		case "ci":
			mounts := strings.Contains(path, "from=prod/other")
			return strings.HasPrefix(repo, "open/") && !mounts || repo == "prod/lantern" && read && !mounts
		}
		return false
	}
	asked, granted := 0, 0
	for _, who := range []string{"kubelet", "ci", "promoter", "crossing", "stranger", "nobody"} {
		token := ""
		if who != "nobody" {
			token = must[string](t)(w.Lab.Mint("verifier", map[string]any{"aud": gateAudience, "sub": who}))
		}
		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"} {
			for _, repo := range []string{"prod/lantern", "prod/other", "prod", "open/lantern", "open", "prod-evil/lantern", "elsewhere"} {
				for _, path := range []string{"manifests/v1", "manifests/" + sum, "blobs/" + sum, "blobs/uploads/", "blobs/uploads/?mount=" + sum + "&from=prod/other", "blobs/uploads/abc", "tags/list", "referrers/" + sum} {
					before := reached.Load()
					req := httptest.NewRequest(method, "/v2/"+repo+"/"+path, bytes.NewReader([]byte("{}")))
					if token != "" {
						req.SetBasicAuth("any", token)
					}
					rec := httptest.NewRecorder()
					s.ServeHTTP(rec, req)
					asked++
					allowed := may(who, method, repo, path)
					denied := strings.Contains(rec.Body.String(), "NOT_GRANTED") || strings.Contains(rec.Body.String(), "TOKEN_")
					if allowed {
						granted++
					}
					if allowed == denied || !allowed && reached.Load() != before || !allowed && rec.Code != 401 && rec.Code != 403 {
						t.Errorf("%s %s %s/%s: granted %v, answered %d, and the registry was asked %d times: %.200s", who, method, repo, path, allowed, rec.Code, reached.Load()-before, rec.Body)
					}
				}
			}
		}
	}
	if t.Logf("%d cells, %d of them granted", asked, granted); granted == 0 {
		t.Error("nothing is granted")
	}
}

// TestProxyBearsALot floods the proxy with pulls and pushes of good and bad
// images: none is let in that must not be, and nothing is left behind.
func TestProxyBearsALot(t *testing.T) {
	f := openFront(t, func(g *gatehouse) { g.limits.AtOnce, g.limits.Queue, g.limits.PerCaller = 4, 4, 400 })
	bad, raw := f.unsigned(f.repo)
	if err := f.behind.PushManifest(t.Context(), f.repo, bad, raw); err != nil {
		t.Fatal(err)
	}
	base := "/v2/" + f.repo + "/manifests/"
	series := func() int {
		w := httptest.NewRecorder()
		f.server.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return strings.Count(w.Body.String(), "\n")
	}
	var seen sync.Map
	flood := func(n int) {
		var wait sync.WaitGroup
		for w := range 16 {
			wait.Go(func() {
				for i := w; i < n; i += 16 {
					c, want := call{"GET", base + f.good.Digest.String(), f.puller, nil, "", nil}, 200
					switch i % 4 {
					case 1:
						c, want = call{"GET", base + bad.Digest.String(), f.puller, nil, "", nil}, 403
					case 2:
						c, want = call{"PUT", base + fmt.Sprintf("v0.0.1-%d", i), f.pusher, raw, registry.MediaTypeManifest, nil}, 403
					case 3:
						c, want = call{"GET", fmt.Sprintf("/v2/gated/none-%d/manifests/v1", i), f.puller, nil, "", nil}, 404
					}
					got := f.send(c)
					seen.Store(got.status, true)
					if got.status != want && (got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "") {
						t.Errorf("%s %s: %d, want %d: %.300s", c.method, c.path, got.status, want, got.body)
					}
				}
			})
		}
		wait.Wait()
	}
	flood(160)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before, kinds := runtime.NumGoroutine(), series()
	flood(1_200)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if now := series(); now > kinds+10 {
		t.Errorf("the metrics had %d lines, and have %d", kinds, now)
	}
	if now := runtime.NumGoroutine(); now > before+40 {
		t.Errorf("there were %d goroutines, and there are %d", before, now)
	}
	for _, status := range []int{200, 403, 404, 429} {
		if _, is := seen.Load(status); !is {
			t.Errorf("nobody was answered %d", status)
		}
	}
}
