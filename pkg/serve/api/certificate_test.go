package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// pemPair is a certificate of a caller, as it lies in files.
type pemPair struct{ certificate, key []byte }

// certified makes certificates for clients, all by one authority that the pool
// has.
func certified(t *testing.T) (pool *x509.CertPool, issue func(until time.Time) pemPair) {
	t.Helper()
	now := time.Now()
	key := generated(t)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if ca, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(ca)
	return pool, func(until time.Time) pemPair {
		own := generated(t)
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(2), NotBefore: now.Add(-time.Hour), NotAfter: until, URIs: []*url.URL{{Scheme: "spiffe", Host: "example.test", Path: "/ci"}},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		raw, err := x509.CreateCertificate(rand.Reader, leaf, ca, own.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(own)
		if err != nil {
			t.Fatal(err)
		}
		return pemPair{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
	}
}

func generated(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestCertificateIsShown: a gate is shown the certificate, whichever authorities
// it names; and why it ends a connection for it is a refusal, with the next act.
func TestCertificateIsShown(t *testing.T) {
	known, issue := certified(t)
	_, foreign := certified(t)
	hour := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name  string
		shown *pemPair
		auth  tls.ClientAuthType
		want  string // of the refusal; empty is a yes
		act   string
	}{
		{"one that it knows", new(issue(hour)), tls.VerifyClientCertIfGiven, "", ""},
		{"one that expired", new(issue(time.Now().Add(-time.Minute))), tls.VerifyClientCertIfGiven, "expired or not yet valid", "renew"},
		{"one of another authority", new(foreign(hour)), tls.VerifyClientCertIfGiven, "unknown certificate authority", "tls.clients"},
		{"none, where one is demanded", nil, tls.RequireAndVerifyClientCert, "requires a client certificate", "use a certificate"},
		{"none", nil, tls.VerifyClientCertIfGiven, "", ""},
		{"one, where nobody asks for it", new(foreign(hour)), tls.NoClientCert, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if shows := len(r.TLS.PeerCertificates) > 0; shows != (c.shown != nil && c.auth != tls.NoClientCert) {
					w.WriteHeader(http.StatusTeapot)
				}
				_ = json.NewEncoder(w).Encode(yes(t))
			}))
			srv.TLS = &tls.Config{ClientAuth: c.auth, ClientCAs: known, MinVersion: tls.VersionTLS12}
			srv.Config.ErrorLog = log.New(io.Discard, "", 0)
			srv.EnableHTTP2 = c.shown != nil || c.auth != tls.RequireAndVerifyClientCert // which does not tell why it was ended
			srv.StartTLS()
			defer srv.Close()
			config := transport.Config{Roots: x509.NewCertPool()}
			config.Roots.AddCert(srv.Certificate())
			if c.shown != nil {
				pair, err := api.Certificate(c.shown.certificate, c.shown.key)
				if err != nil {
					t.Fatal(err)
				}
				config.Certificate = &pair
			}
			client, err := api.New(srv.URL, transport.New(config), nil)
			if err != nil {
				t.Fatal(err)
			}
			a, err := client.Decide(t.Context(), []api.Question{{Verb: api.Verify, Image: image}})
			f := verdict.FindingOf("", err)
			switch {
			case c.want == "" && (err != nil || !a.Accepted()):
				t.Errorf("%v, accepted: %v", err, a.Accepted())
			case c.want != "" && (err == nil || f.Code != verdict.TokenSub || !strings.Contains(f.Message, c.want) || !strings.Contains(f.Fix, c.act)):
				t.Errorf("%s: %s (%s), want %q and %q", f.Code, f.Message, f.Fix, c.want, c.act)
			}
		})
	}
}

// TestCertificateParse: what is no certificate with its key is said before
// anybody is asked, and nothing of a key is repeated.
func TestCertificateParse(t *testing.T) {
	_, issue := certified(t)
	one, another := issue(time.Now().Add(time.Hour)), issue(time.Now().Add(time.Hour))
	for _, c := range []struct {
		name string
		pair pemPair
		good bool
	}{
		{"a pair", one, true},
		{"the key of another", pemPair{one.certificate, another.key}, false},
		{"the two mixed up", pemPair{one.key, one.certificate}, false},
		{"no certificate", pemPair{nil, one.key}, false},
		{"no key", pemPair{one.certificate, nil}, false},
		{"an encrypted key", pemPair{one.certificate, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("secret")})}, false},
		{"a damaged one", pemPair{one.certificate[:len(one.certificate)/2], one.key}, false},
	} {
		_, err := api.Certificate(c.pair.certificate, c.pair.key)
		if (err == nil) != c.good || err != nil && (verdict.OutcomeOf(err) != verdict.Malformed || strings.Contains(err.Error(), "MIG")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRedirectIsNoAnswer: whoever asks is not shown to anybody whom the address
// names in its place, not even at the same one.
func TestRedirectIsNoAnswer(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		asked := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked++; r.URL.Path == "/v1/decisions" {
				http.Redirect(w, r, "/elsewhere", status)
				return
			}
			_ = json.NewEncoder(w).Encode(yes(t))
		}))
		client, err := api.New(srv.URL, transport.New(transport.Config{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := client.Decide(t.Context(), []api.Question{{Verb: api.Verify, Image: image}}); verdict.OutcomeOf(err) != verdict.Unavailable || a.Accepted() || asked != 1 {
			t.Errorf("%d: %v after %d requests, accepted: %v", status, err, asked, a.Accepted())
		}
		srv.Close()
	}
}
