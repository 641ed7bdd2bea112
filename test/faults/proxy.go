// Package faults stands in front of real services and lets them fail as the
// world fails, by a script: which request, how often, and how.
//
//	registry := faults.Before(t, "http://"+l.Registry,
//		faults.Fault{Method: "PUT", Path: "/manifests/", Do: faults.FailsButDoes(503)})
//	… // use registry.URL in place of l.Registry
//	registry.Heal()
//
// What is not spoiled goes through to the real service and comes back as it
// was. There is no chance and no clock in it: the same requests meet the same
// faults. Every request is remembered, see [Proxy.Seen].
package faults

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Fault says which requests are spoiled, and how. Empty words match all.
type Fault struct {
	Method string
	Path   string // a part of the path with its query, or, with "$" after it, its end
	Skip   int    // so many of them go through first
	Times  int    // so many are spoiled then; 0 for all that come
	Every  int    // of those, only each that many; 0 and 1 for each
	Do     Act
}

// Act is one way to fail. The real service is at hand, for those that do what
// they are asked and say otherwise.
type Act func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Request is one request that came.
type Request struct {
	Method, Path string // with its query
	UserAgent    string
	Secrets      bool // it carried credentials
	Spoiled      bool
}

// Proxy is a service that fails.
type Proxy struct {
	// URL is its origin; Host is what image references want.
	URL, Host string

	real http.Handler
	srv  *httptest.Server

	mu     sync.Mutex // owns the rest
	script []Fault
	met    []int // how often each fault matched
	seen   []Request
}

// Before starts a proxy before the service at target, until the test ends.
func Before(t testing.TB, target string, script ...Fault) *Proxy {
	t.Helper()
	p := newProxy(t, target, script)
	p.srv.Start()
	p.URL = p.srv.URL
	p.Host = strings.TrimPrefix(p.URL, "http://")
	return p
}

// BeforeTLS is [Before] with TLS of the given kind.
func BeforeTLS(t testing.TB, target string, config *tls.Config, script ...Fault) *Proxy {
	t.Helper()
	p := newProxy(t, target, script)
	p.srv.TLS = config
	p.srv.StartTLS()
	p.URL = p.srv.URL
	p.Host = strings.TrimPrefix(p.URL, "https://")
	return p
}

func newProxy(t testing.TB, target string, script []Fault) *Proxy {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{}
	p.Spoil(script...)
	quiet := log.New(io.Discard, "", 0)
	p.real = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // services name themselves by it
		},
		FlushInterval: -1, ErrorLog: quiet, Transport: &http.Transport{DisableCompression: true},
	}
	p.srv = httptest.NewUnstartedServer(p)
	p.srv.Config.ErrorLog = quiet
	t.Cleanup(func() {
		p.srv.CloseClientConnections()
		p.srv.Close()
	})
	return p
}

// Spoil replaces the script.
func (p *Proxy) Spoil(script ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script, p.met = script, make([]int, len(script))
}

// Heal ends all faults.
func (p *Proxy) Heal() { p.Spoil() }

// Seen returns the requests that came, in their order.
func (p *Proxy) Seen() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.seen...)
}

// Count is how many requests came whose method and path match.
func (p *Proxy) Count(method, path string) (n int) {
	for _, r := range p.Seen() {
		if (method == "" || r.Method == method) && strings.Contains(r.Path, path) {
			n++
		}
	}
	return n
}

// Spoiled is how many requests met a fault.
func (p *Proxy) Spoiled() (n int) {
	for _, r := range p.Seen() {
		if r.Spoiled {
			n++
		}
	}
	return n
}

// ServeHTTP spoils a request, or passes it on.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if do := p.fault(r); do != nil {
		do(w, r, p.real)
		return
	}
	p.real.ServeHTTP(w, r)
}

// fault picks the first fault that a request meets, and remembers the request.
func (p *Proxy) fault(r *http.Request) Act {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := Request{
		Method: r.Method, Path: r.URL.RequestURI(), UserAgent: r.UserAgent(),
		Secrets: r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "",
	}
	defer func() { p.seen = append(p.seen, one) }()
	for i, f := range p.script {
		if f.Method != "" && f.Method != r.Method || !meets(one.Path, f.Path) {
			continue
		}
		p.met[i]++
		if n := p.met[i] - f.Skip; n > 0 && (f.Times == 0 || n <= f.Times) && n%max(f.Every, 1) == 0 {
			one.Spoiled = true
			return f.Do
		}
	}
	return nil
}

func meets(path, want string) bool {
	if end, whole := strings.CutSuffix(want, "$"); whole {
		return strings.HasSuffix(path, end)
	}
	return strings.Contains(path, want)
}
