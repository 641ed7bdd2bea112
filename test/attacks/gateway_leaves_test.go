package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
)

// raw is the text of a good request.
func (g *gatehouse) raw(token string) string {
	body := g.body(g.image)
	return fmt.Sprintf("POST /v1/decisions HTTP/1.1\r\nHost: gate\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", token, len(body), body)
}

// dial connects and sends some bytes.
func (g *gatehouse) dial(text string) (*net.TCPConn, error) {
	c, err := net.Dial("tcp", g.host)
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(c, text)
	return c.(*net.TCPConn), err
}

// mishap is a way in which a request goes wrong.
type mishap struct {
	name string
	do   func(g *gatehouse, token string) error
}

// mishaps are all of them; each is done very often.
func mishaps() []mishap {
	send := func(g *gatehouse, token, body string, want int) error {
		req, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+g.host+"/v1/decisions", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want {
			return fmt.Errorf("answered %d, %w; want %d", resp.StatusCode, err, want)
		}
		return nil
	}
	cut := func(at func(whole int) int, reset bool) func(*gatehouse, string) error {
		return func(g *gatehouse, token string) error {
			text := g.raw(token)
			c, err := g.dial(text[:at(len(text))])
			if err == nil && reset {
				err = c.SetLinger(0)
			}
			return errors.Join(err, c.Close())
		}
	}
	return []mishap{
		{"half a question", func(g *gatehouse, token string) error {
			text := g.body(g.image)
			return send(g, token, text[:len(text)/2], http.StatusUnprocessableEntity)
		}},
		{"a token of nobody", func(g *gatehouse, token string) error {
			return send(g, token[:len(token)-8]+"AAAAAAAA", g.body(g.image), http.StatusUnauthorized)
		}},
		{"an image that is not granted", func(g *gatehouse, token string) error {
			return send(g, token, g.body("evil.example.test/x@sha256:"+strings.Repeat("0", 64)), http.StatusForbidden)
		}},
		{"cut off in the head", cut(func(int) int { return 60 }, false)},
		{"cut off in the body", cut(func(whole int) int { return whole - 10 }, false)},
		{"reset in the body", cut(func(whole int) int { return whole - 10 }, true)},
		{"gone before the answer", cut(func(whole int) int { return whole }, false)},
		{"reset before the answer", cut(func(whole int) int { return whole }, true)},
	}
}

// TestGatewayLeavesNothing: after ten thousand requests that went wrong there
// is no more of anything than before.
func TestGatewayLeavesNothing(t *testing.T) {
	g := openGatehouse(t, func(g *gatehouse) { g.log.off = true })
	token, all := g.token(nil), mishaps()
	wrong := func(n int) {
		var wait sync.WaitGroup
		var next atomic.Int64
		for range 8 {
			wait.Go(func() {
				for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
					if f := all[i%len(all)]; f.do != nil {
						if err := f.do(g, token); err != nil {
							t.Errorf("%s: %v", f.name, err)
						}
					}
				}
			})
		}
		wait.Wait()
		http.DefaultClient.CloseIdleConnections()
	}
	honest := func() {
		if status, _, raw := g.do(g.request()); status != http.StatusOK {
			t.Errorf("an honest caller: %d %s", status, raw)
		}
		http.DefaultClient.CloseIdleConnections()
	}
	honest()
	idle := runtime.NumGoroutine()
	wrong(5_000) // what is made once is made now, and the last decisions are kept for auditors
	settled(t, idle+20)
	goroutines, heap := runtime.NumGoroutine(), inUse()
	wrong(10_000)
	honest()
	// Each mishap happens more than a thousand times: one that left a goroutine
	// would leave a thousand, and one that left its buffers (4 KiB to read and as
	// much to write) ten megabytes. What is allowed is what comes and goes by
	// itself: connections that are being closed, and buffers that are used again.
	settled(t, goroutines+20)
	const allowance = 2 << 20
	now := inUse()
	for range 20 { // finalizers run later
		if now <= heap+allowance {
			break
		}
		time.Sleep(100 * time.Millisecond)
		now = inUse()
	}
	if now > heap+allowance {
		t.Errorf("the heap had %d bytes, and has %d", heap, now)
	}
	t.Logf("goroutines: %d before, %d after; heap: %d before, %d after", goroutines, runtime.NumGoroutine(), heap, now)
}

// inUse is what is reachable.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestGatewaySlots: half of the requests that are let in at once, and of those
// that wait, may be one caller's; what that caller asks beyond is sent away at
// once, and told to come again. Those who were let in are answered.
func TestGatewaySlots(t *testing.T) {
	const atOnce, queue, more = 256, 20, 50
	const share = (atOnce + queue) / 2
	open := make(chan struct{})
	lab := http.DefaultTransport
	gated := roundTripper(func(r *http.Request) (*http.Response, error) {
		select {
		case <-open:
			return lab.RoundTrip(r)
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	})
	g := openGatehouse(t, func(g *gatehouse) {
		g.limits.Queue, g.limits.Deadline = queue, time.Minute // [serve.Limits.AtOnce] is as it comes
		g.open = func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, gated) }
	})
	token := g.token(nil)
	to := &http.Transport{MaxIdleConnsPerHost: share + more}
	defer to.CloseIdleConnections()
	var counts [600]atomic.Int64
	var away, wait sync.WaitGroup
	away.Add(more)
	var sentAway atomic.Int64
	for range share + more {
		wait.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.host+"/v1/decisions", strings.NewReader(g.body(g.image)))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := to.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			raw, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			counts[resp.StatusCode].Add(1)
			if resp.StatusCode == http.StatusTooManyRequests {
				if resp.Header.Get("Retry-After") == "" || !bytes.Contains(raw, []byte(`"BUSY"`)) {
					t.Errorf("it is not told to come again: %s", raw)
				}
				if sentAway.Add(1) <= more {
					away.Done()
				}
			}
		})
	}
	away.Wait() // while nobody else is answered
	if n := counts[http.StatusOK].Load(); n != 0 {
		t.Errorf("%d were answered by a registry that does not answer", n)
	}
	close(open)
	wait.Wait()
	if yes, no := counts[http.StatusOK].Load(), counts[http.StatusTooManyRequests].Load(); yes != share || no != more {
		t.Errorf("%d were answered and %d sent away, want %d and %d", yes, no, share, more)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestGatewayLabels: whatever is asked for, in a hundred thousand ways, the
// metrics have as many lines as before (H15).
func TestGatewayLabels(t *testing.T) {
	g := openGatehouse(t, func(g *gatehouse) { g.log.off = true })
	token := g.token(nil)
	series := func() int {
		w := httptest.NewRecorder()
		g.server.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return strings.Count(w.Body.String(), "\n")
	}
	one := func(i int) int {
		path, image := "/v1/decisions", fmt.Sprintf("evil-%d.example.test/x/y%d@sha256:%064d", i, i, i)
		if i%2 == 0 {
			path = fmt.Sprintf("/v1/decisions/%d", i)
		}
		req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(g.body(image)))
		req.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		g.server.ServeHTTP(w, req)
		return w.Code
	}
	if a, b := one(0), one(1); a != http.StatusNotFound || b != http.StatusForbidden {
		t.Fatalf("answered %d and %d", a, b)
	}
	before := series()
	for i := range 100_000 {
		one(2 + i)
	}
	if now := series(); now != before {
		t.Errorf("the metrics had %d lines, and have %d", before, now)
	}
	if !strings.Contains(metricsOf(g), `code="NOT_GRANTED"} 50001`) {
		t.Errorf("not all were counted:\n%s", metricsOf(g))
	}
}

func metricsOf(g *gatehouse) string {
	w := httptest.NewRecorder()
	g.server.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// TestGatewayArmy: hundreds who send or read slowly, or do nothing at all, keep
// nobody out, and leave nothing when they go (H14).
func TestGatewayArmy(t *testing.T) {
	const soldiers = 500
	f := openFortress(t)
	plain := openGatehouse(t, func(g *gatehouse) { g.log.off = true })
	ask, done := f.honest()
	defer done()
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	token, neighbour := plain.token(nil), plain.neighbour()
	whole := plain.raw(token)
	before := runtime.NumGoroutine()
	for _, c := range []struct {
		name string
		at   *gatehouse
		text string
	}{
		{"who connect and say nothing", plain, ""},
		{"who begin a handshake and stop", f.gatehouse, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
		{"who do not end their head", plain, whole[:80]},
		{"who do not end their body", plain, whole[:len(whole)-1]},
		{"who read no answers", plain, strings.Repeat(whole, 20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var army []*net.TCPConn
			for range soldiers {
				s, err := c.at.dial(c.text)
				if err != nil {
					t.Fatal(err)
				}
				army = append(army, s)
			}
			for range 20 {
				if err := ask(); err != nil {
					t.Errorf("an honest caller, meanwhile: %v", err)
				}
				other := plain.request()
				other.Header.Set("Authorization", "Bearer "+neighbour)
				if status, _, raw := plain.do(other); status != http.StatusOK {
					t.Errorf("an honest caller of the same listener, meanwhile: %d %s", status, raw)
				}
			}
			for _, s := range army {
				_ = s.Close()
			}
		})
	}
	http.DefaultClient.CloseIdleConnections()
	settled(t, before+20)
	if err := ask(); err != nil {
		t.Errorf("an honest caller, afterwards: %v", err)
	}
}

// TestGatewayHitRatio: how much of what is asked was decided before is counted,
// and shown.
func TestGatewayHitRatio(t *testing.T) {
	g := openGatehouse(t)
	for range 4 {
		if status, _, raw := g.do(g.request()); status != http.StatusOK {
			t.Fatalf("%d %s", status, raw)
		}
	}
	if said := metricsOf(g); !strings.Contains(said, "\nwaybill_gate_cache_hit_ratio 0.75\n") {
		t.Errorf("the metrics do not say three of four:\n%s", said)
	}
	page := httptest.NewRecorder()
	g.server.Admin().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/statusz", nil))
	if !strings.Contains(page.Body.String(), "75.0 %") {
		t.Error("the page does not say three of four")
	}
}

// lines are what the service logs.
type lines struct {
	mu  sync.Mutex // owns all
	all bytes.Buffer
	off bool // nothing is kept, for who counts memory
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off {
		return len(p), nil
	}
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
