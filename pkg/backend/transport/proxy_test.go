package transport

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestProxyRefuses: a proxy that demands credentials is named, with what to do,
// and without the credentials that it was given; a server that answers the same
// itself is not taken for a proxy.
func TestProxyRefuses(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.Host, "forbidden."):
			w.WriteHeader(http.StatusForbidden)
		case r.Header.Get("Proxy-Authorization") != "":
			w.WriteHeader(http.StatusProxyAuthRequired)
		}
	}))
	defer proxy.Close()
	host := strings.TrimPrefix(proxy.URL, "http://")
	with := &url.URL{Scheme: "http", Host: host, User: url.UserPassword("lantern", "secret")}
	for _, c := range []struct {
		name, address string
		proxy         *url.URL
		refused       string // the next act of the refusal; "" if there is none
	}{
		{"plain", "http://files.example.test/", with, "USER:PASSWORD"},
		{"tunnel", "https://files.example.test/", with, "USER:PASSWORD"},
		{"tunnel to a host that is not permitted", "https://forbidden.example.test/", with, "permit the host"},
		{"plain, no credentials demanded (twin)", "http://files.example.test/", &url.URL{Scheme: "http", Host: host}, ""},
		{"no proxy (twin)", proxy.URL, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := New(Config{})
			rt.wires.open.Proxy = func(*http.Request) (*url.URL, error) { return c.proxy, nil }
			resp, err := Client(rt).Get(c.address)
			if err == nil {
				resp.Body.Close()
			}
			var refused *ProxyError
			if errors.As(err, &refused) != (c.refused != "") || c.refused == "" && err != nil {
				t.Fatalf("%v, want that the proxy refuses: %v", err, c.refused != "")
			}
			if refused != nil && (refused.Proxy != host || !strings.Contains(refused.NextAct(), c.refused) || !refused.Unavailable() || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%v: %s", err, refused.NextAct())
			}
		})
	}
}

// TestProxyAddress: an address that net/http would ignore is an error of every
// request, which does not quote it.
func TestProxyAddress(t *testing.T) {
	for address, fine := range map[string]bool{
		"": true, "proxy.example.test:3128": true, "http://lantern:se%3Acret@proxy.example.test:3128": true, "socks5://proxy.example.test": true,
		"http://lantern:se%cret@proxy.example.test": false, "proxy.example.test:cret": false,
	} {
		t.Setenv("HTTPS_PROXY", address)
		err := New(Config{}).err
		var usage *verdict.UsageError
		if fine != (err == nil) || !fine && (!errors.As(err, &usage) || strings.Contains(err.Error(), "cret")) {
			t.Errorf("%q: %v, want accepted: %t", address, err, fine)
		}
	}
}
