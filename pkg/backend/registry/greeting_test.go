package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// TestGreetingsWithoutEnd: whatever a registry answers to the first question,
// and wherever it sends us for it, the question ends within the patience that
// was given, and little is read. The body of that answer means nothing.
func TestGreetingsWithoutEnd(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv(transport.PatienceVariable, "400ms")
	block := []byte(strings.Repeat("x", 32<<10))
	for name, row := range map[string]struct {
		path  string // where the greeting leads
		first int    // bytes that come at once
		pause time.Duration
		good  bool
	}{
		"a few bytes":                  {"", 100, 0, true},
		"elsewhere, a few bytes":       {"/v2/x/blobs/y", 100, 0, true},
		"without end":                  {"", 1 << 30, 0, true},
		"elsewhere, without end":       {"/v2/x/blobs/y", 1 << 30, 0, true},
		"a byte now and then":          {"", 0, 20 * time.Millisecond, true},
		"elsewhere, a byte now and on": {"/v2/x/blobs/y", 0, 20 * time.Millisecond, true},
		"nothing":                      {"", -1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/tags/list"):
					_, _ = w.Write([]byte(`{"name":"x","tags":["v1"]}`))
					return
				case row.path != "" && r.URL.Path == "/v2/":
					http.Redirect(w, r, row.path, http.StatusTemporaryRedirect)
					return
				}
				if row.first < 0 {
					<-r.Context().Done()
					return
				}
				flush, _ := w.(http.Flusher)
				for sent.Load() < int64(row.first) {
					n, err := w.Write(block[:min(len(block), row.first)])
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
				for row.pause > 0 && r.Context().Err() == nil {
					_, _ = w.Write(block[:1])
					flush.Flush()
					time.Sleep(row.pause) // the attack itself
				}
			}))
			defer server.Close()
			remote, err := registry.OpenRemote(strings.TrimPrefix(server.URL, "http://"), transport.New(transport.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for _, repo := range []string{"a", "b"} {
				if _, err := remote.Tags(ctx, repo); (err == nil) != row.good || err != nil && codeOf(err) != "UNAVAILABLE" {
					t.Errorf("%s: %v, want good %v", repo, err, row.good)
				}
			}
			if got := sent.Load(); got > 64<<20 {
				t.Errorf("the registry could send %d bytes", got)
			}
		})
	}
}

// TestSilentRegistryIsAskedAgain: a registry that did not answer is asked again once
// as much time has passed, and not before.
func TestSilentRegistryIsAskedAgain(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv(transport.PatienceVariable, "400ms")
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var speaks atomic.Bool
		remote, err := registry.OpenRemote("127.0.0.1:5000", roundTripper(func(req *http.Request) (*http.Response, error) {
			asked.Add(1)
			if !speaks.Load() {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"tags":["v1"]}`)), Request: req}, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			pass  time.Duration
			asked bool
			good  bool
		}{{0, true, false}, {300 * time.Millisecond, false, false}, {200 * time.Millisecond, true, true}} {
			time.Sleep(row.pass)
			before := asked.Load()
			_, err := remote.Tags(t.Context(), "a")
			if speaks.Store(true); (err == nil) != row.good || (asked.Load() > before) != row.asked {
				t.Errorf("after %s: asked %d times, %v", row.pass, asked.Load()-before, err)
			}
		}
	})
}

// roundTripper answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func codeOf(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	var gone interface{ Unavailable() bool }
	if errors.As(err, &gone) && gone.Unavailable() {
		return "UNAVAILABLE"
	}
	return ""
}

// TestGreetingSentElsewhere: whoever has credentials for a registry shows them
// to no service that another host demands them for.
func TestGreetingSentElsewhere(t *testing.T) {
	for name, row := range map[string]struct {
		credentials, elsewhere bool
		good                   bool
	}{
		"credentials, and the registry's own demand": {true, false, true},
		"credentials, and another host's demand":     {true, true, false},
		"no credentials, and another host's demand":  {false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var shown atomic.Int64
			token := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					shown.Add(1)
				}
				_, _ = w.Write([]byte(`{"token":"t"}`))
			}))
			defer token.Close()
			demand := func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=%q", strings.Replace(token.URL, "127.0.0.1", "localhost", 1)+"/token", "x"))
				w.WriteHeader(http.StatusUnauthorized)
			}
			other := httptest.NewServer(http.HandlerFunc(demand))
			defer other.Close()
			home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/tags/list"):
					_, _ = w.Write([]byte(`{"name":"x","tags":["v1"]}`))
				case row.elsewhere:
					http.Redirect(w, r, other.URL+"/v2/", http.StatusTemporaryRedirect)
				default:
					demand(w, r)
				}
			}))
			defer home.Close()
			host := strings.TrimPrefix(home.URL, "http://")
			dir, config := t.TempDir(), `{}`
			if row.credentials {
				config = `{"auths":{"` + host + `":{"auth":"YWxpY2U6aHVudGVyMg=="}}}`
			}
			if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("DOCKER_CONFIG", dir)
			remote, err := registry.OpenRemote(host, transport.New(transport.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			_, err = remote.Tags(t.Context(), "a")
			if (err == nil) != row.good || err != nil && (codeOf(err) != "UNAVAILABLE" || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%v, want good %v", err, row.good)
			}
			if want := row.credentials && !row.elsewhere; (shown.Load() > 0) != want {
				t.Errorf("credentials were shown %d times, want shown %v", shown.Load(), want)
			}
		})
	}
}
