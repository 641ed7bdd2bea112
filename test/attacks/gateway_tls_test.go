package attacks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "INSECURE LAB clients"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	raw := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key))
	a.cert = must[*x509.Certificate](t)(x509.ParseCertificate(raw))
	return a
}

// issue makes a certificate for addresses of this machine, or for URIs.
func (a *authority) issue(uris ...string) tls.Certificate {
	a.t.Helper()
	a.n++
	key := must[*ecdsa.PrivateKey](a.t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.n), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, u := range uris {
		template.URIs = append(template.URIs, must[*url.URL](a.t)(url.Parse(u)))
	}
	if len(uris) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	raw := must[[]byte](a.t)(x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key))
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func (a *authority) write(dir, name string, c tls.Certificate) (certificate, key string) {
	a.t.Helper()
	certificate, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	der := must[[]byte](a.t)(x509.MarshalPKCS8PrivateKey(c.PrivateKey))
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return certificate, key
}

// TestGatewayCertificates: a caller is known by the one URI in a certificate of
// the authority that the service believes, and by nothing else.
func TestGatewayCertificates(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	g, _ := tlsGate(t, ours, time.Now)
	for _, one := range []struct {
		name  string
		shown []tls.Certificate
		want  int // zero: no connection
	}{
		{"the caller", []tls.Certificate{ours.issue("spiffe://example.test/registry")}, 200},
		{"nobody", nil, 401},
		{"somebody else", []tls.Certificate{ours.issue("spiffe://example.test/auditor")}, 401},
		{"two at once", []tls.Certificate{ours.issue("spiffe://example.test/registry", "spiffe://example.test/auditor")}, 401},
		{"the caller, of another authority", []tls.Certificate{theirs.issue("spiffe://example.test/registry")}, 0},
	} {
		pool := x509.NewCertPool()
		pool.AddCert(ours.cert)
		client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: one.shown}}}
		resp, err := client.Post("https://"+g.host+"/v1/decisions", "application/json", strings.NewReader(g.body(g.image)))
		switch {
		case err != nil && one.want != 0, err == nil && resp.StatusCode != one.want:
			t.Errorf("%s: %v, %v; want %d", one.name, resp, err, one.want)
		}
		if err == nil {
			_ = resp.Body.Close()
			if resp.ProtoMajor != 2 {
				t.Errorf("%s: spoken to by HTTP/%d", one.name, resp.ProtoMajor)
			}
		}
		client.CloseIdleConnections()
	}
}

// tlsGate serves callers who show certificates of an authority, until the test
// ends. The file of the authority is returned.
func tlsGate(t *testing.T, ours *authority, clock func() time.Time) (g *gatehouse, clients string) {
	t.Helper()
	w := theWorld(t)
	image, dir := stagedImage(t, w), t.TempDir()
	book := must[caller.Book](t)(caller.Parse(fmt.Appendf(nil, `callers: [{name: registry, certificate: {uri: "spiffe://example.test/registry"}}]
grants: [{caller: registry, verbs: [verify], from: [%[1]s/gated/], to: [%[1]s/gated/], channels: [none]}]
`, w.Lab.Registry)))
	server := must[*serve.Server](t)(serve.New(t.Context(), serve.World{
		Load: func(context.Context) (serve.Basis, error) {
			return serve.Basis{PolicyRequest: gate.PolicyRequest{Policy: w.profile.Policy, Verifier: w.verifier}, Callers: book}, nil
		},
		Open: func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, http.DefaultTransport) },
		Keys: serve.IssuerKeys(http.DefaultTransport), Clock: clock, Log: slog.New(slog.DiscardHandler), Record: io.Discard,
	}, serve.Limits{Parting: time.Millisecond}))
	c := serve.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", TLS: &serve.TLS{}}
	c.TLS.Certificate, c.TLS.Key = ours.write(dir, "server", ours.issue())
	c.TLS.Clients, _ = ours.write(dir, "clients", tls.Certificate{Certificate: [][]byte{ours.cert.Raw}, PrivateKey: ours.key})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- server.Serve(ctx, c, nil, func(callers, _ string) { listening <- callers }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &gatehouse{t: t, w: w, host: <-listening, image: image}, c.TLS.Clients
}

// TestGatewayKeptConnections: what was shown when a connection was made counts
// only while it is valid and its authority is in force, and no connection is
// kept for ever.
func TestGatewayKeptConnections(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for name, row := range map[string]struct {
		later  time.Duration
		change bool // the file of the authorities
		want   int
		closed bool
	}{
		"a moment later":                   {2 * time.Second, false, 200, false},
		"the certificate has expired":      {2 * time.Hour, false, 401, true},
		"the authority was taken away":     {2 * time.Second, true, 401, false},
		"the connection is old, and valid": {6 * time.Minute, false, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			var later atomic.Int64
			g, file := tlsGate(t, ours, func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
			pool := x509.NewCertPool()
			pool.AddCert(ours.cert)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{ours.issue("spiffe://example.test/registry")}}}}
			defer client.CloseIdleConnections()
			ask := func() (int, bool, bool) {
				reused := false
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
				req := must[*http.Request](t)(http.NewRequestWithContext(ctx, "POST", "https://"+g.host+"/v1/decisions", strings.NewReader(g.body(g.image))))
				resp := must[*http.Response](t)(client.Do(req))
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				return resp.StatusCode, reused, resp.Close
			}
			if status, _, closed := ask(); status != 200 || closed {
				t.Fatalf("at first: %d, closed %v", status, closed)
			}
			later.Store(int64(row.later))
			if row.change {
				theirs.write(filepath.Dir(file), "clients", tls.Certificate{Certificate: [][]byte{theirs.cert.Raw}, PrivateKey: theirs.key})
			}
			if status, reused, closed := ask(); status != row.want || !reused || closed != row.closed {
				t.Errorf("%d on a connection that was kept: %v, closed %v; want %d, %v", status, reused, closed, row.want, row.closed)
			}
		})
	}
}

// TestGatewayRestarts: the service ends and another begins while a thousand
// requests are on their way, several times. What a service took it answers;
// who comes to one that has gone is told so by the connection, and comes to the
// next.
func TestGatewayRestarts(t *testing.T) {
	w := theWorld(t)
	g := &gatehouse{t: t, w: w, image: stagedImage(t, w)}
	issuer, subject := w.Lab.Identity("verifier")
	book := must[caller.Book](t)(caller.Parse(fmt.Appendf(nil, `audience: %s
callers: [{name: promoter, token: {issuer: %q, subject: %q}}]
grants: [{caller: promoter, verbs: [verify], from: [%[4]s/gated/], to: [%[4]s/gated/], channels: [none]}]
`, gateAudience, issuer, subject, w.Lab.Registry)))
	start := func() (host string, end func() error) {
		server := must[*serve.Server](t)(serve.New(t.Context(), serve.World{
			Load: func(context.Context) (serve.Basis, error) {
				return serve.Basis{PolicyRequest: gate.PolicyRequest{Policy: w.profile.Policy, Verifier: w.verifier}, Callers: book}, nil
			},
			Open: func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, http.DefaultTransport) },
			Keys: serve.IssuerKeys(http.DefaultTransport), Clock: time.Now, Log: slog.New(slog.DiscardHandler), Record: io.Discard,
		}, serve.Limits{PerCaller: 100_000, Parting: 50 * time.Millisecond}))
		ctx, stop := context.WithCancel(t.Context())
		listening, ended := make(chan string, 1), make(chan error, 1)
		go func() {
			ended <- server.Serve(ctx, serve.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0"}, nil, func(callers, _ string) { listening <- callers })
		}()
		return <-listening, func() error { stop(); return <-ended }
	}
	var host atomic.Pointer[string]
	first, end := start()
	host.Store(&first)
	token := g.token(nil)
	rt := transport.New(transport.Config{Attempts: 3, Patience: 10 * time.Second})
	show := func(context.Context) (string, error) { return token, nil }
	question := []api.Question{{Verb: api.Verify, Image: g.image, Version: w.version.String()}}
	var answered atomic.Int64
	one := func() {
		for {
			client := must[*api.Client](t)(api.New("http://"+*host.Load(), rt, show))
			a, err := client.Decide(t.Context(), question)
			if errors.Is(err, syscall.ECONNREFUSED) {
				continue // it has gone; the next is there already
			}
			if err != nil || !a.Accepted() {
				t.Errorf("a request was lost: %v", err)
				return
			}
			answered.Add(1)
			return
		}
	}
	const requests, restarts = 1000, 10
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range requests / 8 {
				one()
			}
		})
	}
	for i := range restarts {
		for answered.Load() < int64(requests*i/(restarts+1)) {
			time.Sleep(time.Millisecond)
		}
		next, endNext := start()
		host.Store(&next)
		if err := end(); err != nil {
			t.Errorf("it did not end well: %v", err)
		}
		end = endNext
	}
	wait.Wait()
	if err := end(); err != nil {
		t.Error(err)
	}
	if answered.Load() != requests {
		t.Errorf("%d of %d were answered", answered.Load(), requests)
	}
}
