package attacks

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
)

// neighbours are a gate with two callers, known by their certificates, and
// registries: one that answers, and one that never does.
type neighbours struct {
	*gatehouse
	silent string // the host of the registry that does not answer
	client func(name string) *http.Client
	pool   *x509.CertPool
	show   map[string]tls.Certificate
	record bytes.Buffer
}

func openNeighbours(t *testing.T, limits serve.Limits) *neighbours {
	t.Helper()
	w, ours := theWorld(t), newAuthority(t)
	n := &neighbours{gatehouse: &gatehouse{t: t, w: w, image: stagedImage(t, w)}, silent: "127.0.0.1:9", show: map[string]tls.Certificate{}}
	book := must[caller.Book](t)(caller.Parse(fmt.Appendf(nil, `callers:
- {name: one, certificate: {uri: "spiffe://example.test/one"}}
- {name: two, certificate: {uri: "spiffe://example.test/two"}}
- {name: reader, certificate: {uri: "spiffe://example.test/reader"}}
grants:
- {caller: one, verbs: [verify], from: [%[1]s/gated/, %[2]s/x/], to: [%[1]s/gated/, %[2]s/x/], channels: [none]}
- {caller: two, verbs: [verify], from: [%[1]s/gated/], to: [%[1]s/gated/], channels: [none]}
- {caller: reader, verbs: [audit], from: [%[1]s/gated/], to: [%[1]s/gated/], channels: [none]}
`, w.Lab.Registry, n.silent)))
	server := must[*serve.Server](t)(serve.New(t.Context(), serve.World{
		Load: func(context.Context) (serve.Basis, error) {
			return serve.Basis{PolicyRequest: gate.PolicyRequest{Policy: w.profile.Policy, Verifier: w.verifier}, Callers: book}, nil
		},
		Open: func(host string) (*registry.Remote, error) {
			if host != n.silent {
				return registry.OpenRemote(host, http.DefaultTransport)
			}
			return registry.OpenRemote(host, roundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			}))
		},
		Keys: serve.IssuerKeys(http.DefaultTransport), Clock: time.Now, Log: slog.New(slog.DiscardHandler), Record: &n.record,
	}, limits))
	dir := t.TempDir()
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
	n.host, n.pool = <-listening, x509.NewCertPool()
	n.pool.AddCert(ours.cert)
	for _, name := range []string{"one", "two", "reader"} {
		n.show[name] = ours.issue("spiffe://example.test/" + name)
	}
	n.client = func(name string) *http.Client {
		to := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: n.pool, Certificates: []tls.Certificate{n.show[name]}}}
		t.Cleanup(to.CloseIdleConnections)
		return &http.Client{Transport: to}
	}
	return n
}

// post sends one request, and returns its status and what was said.
func (n *neighbours) post(ctx context.Context, name, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+n.host+"/v1/decisions", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := n.client(name).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// stall opens a connection and sends a request but for its last bytes.
func (n *neighbours) stall(name string, body int) (*tls.Conn, error) {
	conn, err := tls.Dial("tcp", n.host, &tls.Config{RootCAs: n.pool, Certificates: []tls.Certificate{n.show[name]}})
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "POST /v1/decisions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n.host, body, strings.Repeat(" ", body-5))
	return conn, err
}

// TestGatewayStalledBodies: a caller who sends requests and never ends them is
// read from on some connections at a time, and sent away on most; another is
// answered meanwhile. One who may ask for nothing is sent away unread.
func TestGatewayStalledBodies(t *testing.T) {
	n := openNeighbours(t, serve.Limits{PerCaller: 100_000, AtOnce: 64, Queue: 64, Parting: time.Millisecond})
	const many = 150
	var away atomic.Int64
	for range many {
		conn, err := n.stall("one", 100<<10)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil && resp.StatusCode == http.StatusTooManyRequests {
				away.Add(1)
			}
		}()
	}
	status, said, err := n.post(t.Context(), "two", n.body(n.image))
	if err != nil || status != http.StatusOK {
		t.Errorf("another caller: %d, %v\n%s", status, err, said)
	}
	for deadline := time.Now().Add(20 * time.Second); away.Load() < many-64 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if away.Load() < many-64 {
		t.Errorf("%d of %d stalled requests were sent away, want all but the caller's share of 64", away.Load(), many)
	}
	conn, err := n.stall("reader", 100<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a caller without a grant, whose request was not sent: %v, %v", resp, err)
	}
}

// TestGatewayNeighbour: questions about a registry that does not answer take up
// no more than a part of what is decided, so that another caller's new question
// about a healthy one is answered.
func TestGatewayNeighbour(t *testing.T) {
	n := openNeighbours(t, serve.Limits{PerCaller: 100_000, AtOnce: 16, Queue: 64, Deadline: 20 * time.Second, Parting: time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, digest, _ := strings.Cut(n.image, "@")
	for batch := range 4 {
		q := api.Request{Schema: api.SchemaRequest}
		for i := range 30 {
			q.Decisions = append(q.Decisions, api.Question{Verb: api.Verify, Image: fmt.Sprintf("%s/x/y%d-%d@%s", n.silent, batch, i, digest), Version: n.w.version.String()})
		}
		body := string(must[[]byte](t)(json.Marshal(q)))
		go func() { _, _, _ = n.post(ctx, "one", body) }()
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // until all of them are on their way
		status, said, err := n.post(t.Context(), "two", n.body(n.image))
		if err != nil || status != http.StatusOK {
			t.Fatalf("another caller: %d, %v\n%s", status, err, said)
		}
		if time.Now().After(deadline) || strings.Contains(said, `"cached":true`) {
			break
		}
	}
}

// TestGatewayStrangersInTheRecord: requests of unknown callers are summed up, a
// line for each reason and second, and none of them is lost from the count.
func TestGatewayStrangersInTheRecord(t *testing.T) {
	var now atomic.Int64
	g := openGatehouse(t, func(g *gatehouse) {
		start := time.Now()
		g.clock = func() time.Time { return start.Add(time.Duration(now.Load())) }
	})
	send := func(many int) {
		for range many {
			req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.host+"/v1/decisions", strings.NewReader("{}")))
			if status, _, _ := g.do(req); status != http.StatusUnauthorized {
				t.Fatalf("status %d", status)
			}
		}
	}
	send(200)
	now.Store(int64(2 * time.Second))
	send(1)
	lines, counted := 0, int64(0)
	for line := range strings.Lines(g.log.String()) {
		var l api.Line
		if json.Unmarshal([]byte(line), &l) != nil || l.Message != api.NotLetIn {
			continue
		}
		lines++
		counted += max(1, l.Count)
	}
	if lines != 2 || counted != 201 {
		t.Errorf("%d lines that stand for %d requests, want 2 for 201", lines, counted)
	}
}
