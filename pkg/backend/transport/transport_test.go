package transport

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// quick returns a transport whose pauses are too short to notice.
func quick(c Config) *Transport {
	rt := New(c)
	rt.limits.firstWait = time.Microsecond
	return rt
}

// flaky answers with the statuses one after the other, then with 200.
func flaky(t *testing.T, header http.Header, statuses ...int) (*httptest.Server, *atomic.Int32) {
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n := int(asked.Add(1))
		if n > len(statuses) {
			fmt.Fprintf(w, "%s %s", r.UserAgent(), body)
			return
		}
		for key, values := range header {
			w.Header()[key] = values
		}
		w.WriteHeader(statuses[n-1])
	}))
	t.Cleanup(srv.Close)
	return srv, &asked
}

func TestRetry(t *testing.T) {
	now := http.Header{"Retry-After": {"0"}}
	for _, c := range []struct {
		name     string
		method   string
		body     io.Reader
		header   http.Header
		statuses []int
		want     int
		asked    int32
	}{
		{"GET after 429", "GET", nil, now, []int{429}, 200, 2},
		{"GET after 502 503 504", "GET", nil, nil, []int{502, 503, 504}, 200, 4},
		{"GET gives up", "GET", nil, nil, []int{503, 503, 503, 503, 503}, 503, 4},
		{"GET after 500 408", "GET", nil, nil, []int{500, 408}, 200, 3},
		{"GET after 501 is an answer", "GET", nil, nil, []int{501}, 501, 1},
		{"GET after 404 is an answer", "GET", nil, nil, []int{404}, 404, 1},
		{"PUT with a body that can be read again", "PUT", strings.NewReader("x"), nil, []int{502}, 200, 2},
		{"PUT without", "PUT", io.MultiReader(strings.NewReader("x")), nil, []int{502}, 502, 1},
		{"POST after 429", "POST", strings.NewReader("x"), now, []int{429}, 200, 2},
		{"POST after 429 without a second body", "POST", io.MultiReader(strings.NewReader("x")), now, []int{429}, 429, 1},
		{"POST after 502 may have been done", "POST", strings.NewReader("x"), nil, []int{502}, 502, 1},
		{"POST after 503 may have been done", "POST", strings.NewReader("x"), nil, []int{503}, 503, 1},
		{"POST after 503 that says when", "POST", strings.NewReader("x"), now, []int{503}, 200, 2},
		{"more patience asked than there is", "GET", nil, http.Header{"Retry-After": {"3600"}}, []int{429}, 429, 1},
		{"until the year 9999", "GET", nil, http.Header{"Retry-After": {"Fri, 31 Dec 9999 23:59:59 GMT"}}, []int{429}, 429, 1},
		{"for 2,000 years by its own clock", "GET", nil, http.Header{
			"Date": {"Mon, 01 Jan 0001 00:00:00 GMT"}, "Retry-After": {"Mon, 01 Jan 2001 00:00:00 GMT"},
		}, []int{503}, 503, 1},
		{"for no time by its own clock", "GET", nil, http.Header{
			"Date": {"Mon, 01 Jan 0001 00:00:00 GMT"}, "Retry-After": {"Mon, 01 Jan 0001 00:00:00 GMT"},
		}, []int{503}, 200, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, asked := flaky(t, c.header, c.statuses...)
			req, err := http.NewRequest(c.method, srv.URL, c.body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := Client(quick(Config{UserAgent: "test/1", Attempts: 4})).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != c.want || asked.Load() != c.asked {
				t.Errorf("status %d after %d requests, want %d after %d", resp.StatusCode, asked.Load(), c.want, c.asked)
			}
			if want := "test/1 "; c.want == 200 && !strings.HasPrefix(string(body), want) {
				t.Errorf("user agent and body %q, want %q…", body, want)
			}
			if c.want == 200 && c.body != nil && !bytes.HasSuffix(body, []byte("x")) {
				t.Errorf("the second attempt sent %q", body)
			}
		})
	}
}

func TestBrokenConnectionIsRetried(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	defer srv.Close()
	resp, err := Client(quick(Config{})).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	asked.Store(0)
	if _, err := Client(quick(Config{})).Post(srv.URL, "text/plain", strings.NewReader("x")); err == nil {
		t.Error("a POST was repeated although it may have been done")
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	srv, _ := flaky(t, http.Header{"Retry-After": {"29"}}, 503, 503, 503, 503)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	req, _ := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
	rt := New(Config{})
	go cancel(why)
	if _, err := rt.RoundTrip(req); err == nil {
		t.Error("no error after the context ended")
	}
}

func TestOffline(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	for _, target := range []string{srv.URL, "http://127.0.0.1:1", "https://example.org"} {
		_, err := Client(New(Config{Offline: true})).Get(target)
		if !errors.Is(err, ErrOffline) {
			t.Errorf("%s: %v, want ErrOffline", target, err)
		}
		var down interface{ Unavailable() bool }
		if !errors.As(err, &down) || !down.Unavailable() {
			t.Errorf("%s: %v is not unavailability", target, err)
		}
	}
}

func TestProxyIsNeverForLoopback(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://proxy.invalid:1")
	t.Setenv("HTTPS_PROXY", "http://proxy.invalid:1")
	proxy := New(Config{}).wires.open.Proxy
	for _, target := range []string{"http://127.0.0.1:5000/", "https://localhost/", "http://[::1]:1/"} {
		req, _ := http.NewRequest("GET", target, nil)
		if u, err := proxy(req); u != nil || err != nil {
			t.Errorf("%s goes through %v, %v", target, u, err)
		}
	}
}

func TestStalledBodyEnds(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "begin")
		w.(http.Flusher).Flush()
		<-release
	}))
	defer srv.Close()
	defer close(release)
	rt := quick(Config{})
	rt.limits.silence = 20 * time.Millisecond
	resp, err := Client(rt).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	var stalled *StalledError
	if !errors.As(err, &stalled) {
		t.Errorf("reading a silent body: %v, want a StalledError", err)
	}
}

func TestRoots(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	if _, err := Client(New(Config{})).Get(srv.URL); err == nil {
		t.Error("an unknown authority was believed")
	}
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	resp, err := Client(New(Config{Roots: roots})).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}
