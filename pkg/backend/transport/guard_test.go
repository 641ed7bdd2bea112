package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestInternalAddresses(t *testing.T) {
	for _, inside := range []string{
		"127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "0.0.0.0", "0.1.2.3",
		"224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.0.192", "198.18.0.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "ff02::1",
		"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "localhost", "LOCALHOST", "[::1]",
		"::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::", "fec0::1", "2001:0:7f00:1::", "2001:0:5db8:d822::f5ff:fffe",
		"168.63.129.16", "fd20:ce::254",
	} {
		if !Internal(inside) {
			t.Errorf("%s is not internal", inside)
		}
	}
	for _, outside := range []string{"93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "2002:5db8:d822::", "2001:0:5db8:d822::a247:27dd", "::93.184.216.34", "a.example", "10.example", "172.32.0.1", "100.128.0.1"} {
		if Internal(outside) {
			t.Errorf("%s is internal", outside)
		}
	}
}

// A name that a redirect leads to is resolved and held against the rules
// before it is dialled; the same name from the operator is dialled.
func TestGuardedDialRefusesWhatANameResolvesTo(t *testing.T) {
	rt := New(Config{})
	for address, ok := range map[string]bool{"127.0.0.1:80": false, "169.254.169.254:80": false, "[::1]:443": false, "93.184.216.34:443": true, "nonsense": false} {
		var refused *AddressError
		err := refuseInternal("tcp", address, nil)
		if errors.As(err, &refused) == ok {
			t.Errorf("%s: %v, want dialled %v", address, err, ok)
		}
	}
	// "localhost" as the system resolves it, in place of a public name.
	_, err := rt.wires.guarded.DialContext(t.Context(), "tcp", "localhost:9")
	var refused *AddressError
	if !errors.As(err, &refused) || refused.Host != "localhost:9" || !netip.MustParseAddrPort(refused.Address).Addr().IsLoopback() || !refused.Unavailable() {
		t.Errorf("guarded dial: %v, want an AddressError", err)
	}
	if transient(err) {
		t.Error("a refusal of our own is repeated")
	}
	if _, err := rt.wires.open.DialContext(t.Context(), "tcp", "localhost:9"); err == nil || errors.As(err, &refused) {
		t.Errorf("the operator's own address: %v, want that nobody listens", err)
	}
}

// What an internal server names may be internal, too; but no metadata of a
// cloud, by whatever address.
func TestInnerDialRefusesMetadata(t *testing.T) {
	for address, ok := range map[string]bool{
		"10.0.0.1:443": true, "127.0.0.1:80": true, "93.184.216.34:443": true,
		"169.254.169.254:80": false, "[fe80::1]:80": false, "[64:ff9b::a9fe:a9fe]:80": false, "[2002:a9fe:a9fe::]:80": false,
		"168.63.129.16:80": false, "100.100.100.200:80": false, "[fd00:ec2::254]:80": false, "0.0.0.0:80": false, "nonsense": false,
	} {
		if err := refuseNeverValid("tcp", address, nil); (err == nil) != ok {
			t.Errorf("%s: %v, want dialled %v", address, err, ok)
		}
	}
}

// from is a connection that comes from where it says.
type from struct {
	net.Conn
	at net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.at }

// A name that answered from an internal address once leads nowhere internal
// when it answers from another: each answer is judged by the connection that it
// came over, and a library's home by all of its answers.
func TestWhereAnAnswerCameFrom(t *testing.T) {
	inside := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80}
	outside := &net.TCPAddr{IP: net.IPv4(93, 184, 216, 34), Port: 80}
	for name, row := range map[string]struct {
		answers []net.Addr
		want    namer // of what the last answer led to
		within  namer // of what a library found in them
	}{
		"inside":               {[]net.Addr{inside}, insider, insider},
		"outside":              {[]net.Addr{outside}, stranger, stranger},
		"inside, then outside": {[]net.Addr{inside, outside}, stranger, stranger},
		"outside, then inside": {[]net.Addr{outside, inside}, insider, stranger},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer server.Close()
			rt := New(Config{})
			rt.wires.open.DisableKeepAlives = true
			var asked []*http.Request
			home := Within(roundTrip(func(req *http.Request) (*http.Response, error) {
				asked = append(asked, req)
				return rt.RoundTrip(req)
			}), mustURL("http://registry.evil.example/"))
			var last *http.Response
			for _, at := range row.answers {
				rt.wires.open.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
					conn, err := (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
					return from{conn, at}, err
				}
				req, err := http.NewRequestWithContext(t.Context(), "GET", "http://registry.evil.example/", nil)
				if err != nil {
					t.Fatal(err)
				}
				if last, err = home.RoundTrip(req); err != nil {
					t.Fatal(err)
				}
				last.Body.Close()
			}
			led, _ := http.NewRequestWithContext(t.Context(), "GET", "https://vault.corp.example/", nil)
			led.Response = last
			if w, err := rt.way(led); err != nil || w.named != row.want {
				t.Errorf("a redirect: %v, %v, want %v", w.named, err, row.want)
			}
			rt.wires.open.DialContext, rt.wires.inner.DialContext, rt.wires.guarded.DialContext = refuseDial, refuseDial, refuseDial
			found, _ := http.NewRequestWithContext(t.Context(), "GET", "https://vault.corp.example/", nil)
			if _, err := home.RoundTrip(found); err == nil {
				t.Fatal("a dial was not refused")
			}
			if w, err := rt.way(asked[len(asked)-1]); err != nil || w.named != row.within {
				t.Errorf("what a library found: %v, %v, want %v", w.named, err, row.within)
			}
		})
	}
}

// A certificate is shown at addresses that the operator named, and at no other;
// who has none speaks HTTP/2 where that is spoken.
func TestCertificateIsForOneServer(t *testing.T) {
	with, without := New(Config{Certificate: &tls.Certificate{}}).wires, New(Config{}).wires
	if with.open.TLSClientConfig.GetClientCertificate == nil || with.guarded.TLSClientConfig.GetClientCertificate != nil {
		t.Error("a certificate is not shown, or shown to strangers")
	}
	if without.open.TLSClientConfig.GetClientCertificate != nil || !without.open.ForceAttemptHTTP2 {
		t.Error("without a certificate the wire is another")
	}
}

// Which wire a request takes depends on who named its address, whoever follows
// the redirect.
func TestWayOfARequest(t *testing.T) {
	rt := New(Config{})
	request := func(address string, via ...*http.Request) *http.Request {
		req, err := http.NewRequest("GET", address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "secret")
		if len(via) > 0 {
			req.Response = &http.Response{Request: via[0]}
		}
		return req
	}
	public, corp := request("https://a.example/"), request("https://registry.corp.example/")
	corp = corp.WithContext(context.WithValue(corp.Context(), viaInside{}, true)) // as its answer came
	for _, c := range []struct {
		name    string
		req     *http.Request
		named   namer
		secret  bool
		refused bool
	}{
		{"typed", request("https://a.example/"), operator, true, false},
		{"typed, internal", request("https://10.0.0.1/"), operator, true, false},
		{"redirected within", request("https://a.example/b", public), operator, true, false},
		{"redirected to another port", request("https://a.example:8443/", public), operator, false, false},
		{"redirected to another name", request("https://b.example/", public), stranger, false, false},
		{"from an answer that came from inside", request("https://blobs.corp.example/", corp), insider, false, false},
		{"from the same name, as it answers from outside", request("https://blobs.corp.example/", request("https://registry.corp.example/")), stranger, false, false},
		{"from there through outside", request("https://blobs.corp.example/", &http.Request{URL: mustURL("https://b.example/"), Response: &http.Response{Request: corp}}), stranger, false, false},
		{"from a typed internal address", request("https://blobs.corp.example/", request("https://10.0.0.1/")), insider, false, false},
		{"from there to metadata", request("https://169.254.169.254/", corp), stranger, false, true},
		{"redirected to plain", request("http://a.example/", public), stranger, false, true},
		{"redirected twice", request("https://a.example/back", &http.Request{URL: mustURL("https://b.example/"), Response: &http.Response{Request: public}}), operator, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := rt.way(c.req)
			if (err != nil) != c.refused {
				t.Fatalf("%v, want refused %v", err, c.refused)
			}
			if err == nil && (w.named != c.named || (w.header.Get("Authorization") != "") != c.secret) {
				t.Errorf("named by %v, credentials %v", w.named, w.header)
			}
		})
	}
}

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// A library with a client of its own follows redirects by its own rules, and
// ours hold all the same.
func TestForeignClientsKeepTheRules(t *testing.T) {
	var secrets, bodies int
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "" {
			secrets++
		}
		if b, _ := io.ReadAll(r.Body); len(b) > 0 {
			bodies++
		}
	}))
	defer other.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/round" {
			http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
			return
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer home.Close()
	foreign := &http.Client{Transport: New(Config{}), CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
	ask := func(method, path, body string) error {
		req, err := http.NewRequest(method, home.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body == "" {
			req.Body, req.GetBody = nil, nil
		}
		req.Header.Set("X-Token", "secret")
		resp, err := foreign.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := ask("GET", "/away", ""); err != nil || secrets > 0 {
		t.Errorf("a GET went away with %d secrets: %v", secrets, err)
	}
	var refused *RedirectError
	if err := ask("POST", "/away", "token"); !errors.As(err, &refused) || bodies > 0 {
		t.Errorf("a POST went away with %d bodies: %v", bodies, err)
	}
	if err := ask("GET", "/round", ""); !errors.As(err, &refused) {
		t.Errorf("a client without a limit went round: %v", err)
	}
}

func TestWithin(t *testing.T) {
	home := mustURL("https://registry.example/")
	for address, ok := range map[string]bool{
		"https://registry.example/v2/":  true,
		"https://auth.example/token":    true,
		"http://auth.example/token":     false,
		"https://169.254.169.254/token": false,
		"https://10.0.0.1/token":        false,
		"https://localhost/token":       false,
	} {
		var guarded, asked bool
		inner := New(Config{})
		probe := roundTrip(func(req *http.Request) (*http.Response, error) {
			w, err := inner.way(req)
			guarded, asked = w.named == stranger, true
			return nil, errors.Join(errors.New("enough"), err)
		})
		req, _ := http.NewRequest("GET", address, nil)
		_, err := Within(probe, home).RoundTrip(req)
		if asked != ok || err == nil {
			t.Errorf("%s: asked %v, %v", address, asked, err)
		}
		if asked && guarded != (req.URL.Host != home.Host) {
			t.Errorf("%s: guarded %v", address, guarded)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Row 6: what cannot be reached is tried a few times and said plainly; a name
// that nobody knows is an answer at once, one that is not resolved just now is
// tried again, and a POST that never left may be too.
func TestUnreachableHosts(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	unknown := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
	flapping := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}
	for _, c := range []struct {
		name   string
		method string
		errs   []error // then it answers
		want   int
		dials  int
	}{
		{"refused", "GET", []error{refused, refused, refused, refused}, 0, 3},
		{"refused once", "GET", []error{refused}, 200, 2},
		{"refused once, POST", "POST", []error{refused}, 200, 2},
		{"unknown name", "GET", []error{unknown}, 0, 1},
		{"name that comes and goes", "GET", []error{flapping, flapping}, 200, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				rt, done := served(Config{}, func(http.ResponseWriter, *http.Request) {})
				defer done()
				pipe := rt.wires.open.DialContext
				rt.wires.open.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					if dials++; dials <= len(c.errs) {
						return nil, c.errs[dials-1]
					}
					return pipe(ctx, network, address)
				}
				req, _ := http.NewRequest(c.method, "http://a.example/", strings.NewReader("x"))
				begun, status := time.Now(), 0
				resp, err := Client(rt).Do(req)
				if err == nil {
					status = resp.StatusCode
					resp.Body.Close()
				}
				if status != c.want || dials != c.dials || time.Since(begun) > 3*time.Second {
					t.Errorf("status %d after %d dials and %s: %v", status, dials, time.Since(begun), err)
				}
			})
		})
	}
}

func TestPatienceOfTheEnvironment(t *testing.T) {
	t.Setenv(PatienceVariable, "250ms")
	if rt := New(Config{}); rt.config.Patience != 250*time.Millisecond || rt.limits.silence != 250*time.Millisecond || rt.limits.firstWait >= 20*time.Millisecond {
		t.Errorf("limits %+v", rt.limits)
	}
	for _, wrong := range []string{"soon", "-1s", "0", "5"} {
		t.Setenv(PatienceVariable, wrong)
		_, err := Client(New(Config{})).Get("http://127.0.0.1:1/")
		var coded interface{ Code() string }
		if !errors.As(err, &coded) || coded.Code() != "USAGE" {
			t.Errorf("%q: %v, want USAGE", wrong, err)
		}
	}
}
