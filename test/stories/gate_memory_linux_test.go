package stories

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// stalled is how many requests or connections one caller begins and never ends.
const stalled = 2000

// TestLongGateInItsMemory: with the limits of its deployment, nothing that one caller
// begins and never ends has the service killed, and another is answered
// meanwhile. Where the machine gives control groups it runs in one.
func TestLongGateInItsMemory(t *testing.T) {
	ours, later := newAuthority(t), time.Now().Add(time.Hour)
	s := &gatehouse{admin: openAdmin(t)}
	s.write("authority.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.cert.Raw})))
	ours.write(s, "server", "", later)
	ours.write(s, "admission", "spiffe://example.test/admission", later)
	group := controlGroup(t, 256<<20)
	s.within = group
	s.startWith([]string{"GOMEMLIMIT=200MiB"}, "tls: {certificate: server.crt, key: server.key, clients: authority.pem}\n")
	host := strings.TrimPrefix(s.callers, "http://")
	show, err := tls.LoadX509KeyPair(s.Path("admission.crt"), s.Path("admission.key"))
	if err != nil {
		t.Fatal(err)
	}
	// Whom it is that the tests ask is no matter here.
	one := &tls.Config{Certificates: []tls.Certificate{show}, InsecureSkipVerify: true}
	other := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	token, question := s.token(nil), s.question("verify", s.image.Digest.String(), "")
	ask := func(while string) {
		var took []time.Duration
		for range 200 {
			begun := time.Now()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+"/v1/decisions", strings.NewReader(question))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := other.Do(req)
			if err != nil {
				t.Fatalf("%s: another caller: %v\n%s", while, err, s.log())
			}
			said, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: another caller: %d %s %v", while, resp.StatusCode, said, err)
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		t.Logf("%s: another caller waits %v (p50), %v (p99); peak memory %d KiB", while, took[100], took[198], peakOf(s.cmd.Process.Pid))
	}
	ask("alone")
	for while, begin := range map[string]func(context.Context) func(){
		"requests without their end": func(ctx context.Context) func() {
			return func() {
				conn, err := (&tls.Dialer{Config: one}).DialContext(ctx, "tcp", host)
				if err != nil {
					return // turned away
				}
				context.AfterFunc(ctx, func() { _ = conn.Close() })
				_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
				_, _ = fmt.Fprintf(conn, "POST /v1/decisions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, 1<<20, strings.Repeat(" ", 1<<20-5))
			}
		},
		"streams without their end": func(ctx context.Context) func() {
			to := &http.Transport{TLSClientConfig: one.Clone(), ForceAttemptHTTP2: true}
			return func() {
				body := &endless{ctx: ctx, left: 1<<20 - 5, stalls: make(chan struct{})}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host+"/v1/decisions", body)
				if err != nil {
					return
				}
				req.ContentLength = 1 << 20
				done := make(chan struct{})
				go func() {
					defer close(done)
					if resp, err := to.RoundTrip(req); err == nil {
						_ = resp.Body.Close()
					}
				}()
				select {
				case <-body.stalls:
				case <-done:
				case <-time.After(5 * time.Second):
				}
			}
		},
		"greetings without their end": func(ctx context.Context) func() {
			return func() {
				conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
				if err != nil {
					return
				}
				context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = conn.Write([]byte("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + strings.Repeat("x", 8000)))
			}
		},
	} {
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		start := begin(ctx)
		for range stalled {
			all.Go(start)
		}
		all.Wait()
		ask(while)
		stop()
	}
	// Pages of the program's file are given back where there is no room.
	if peak := peakOf(s.cmd.Process.Pid) - statusOf(s.cmd.Process.Pid, "RssFile"); peak <= 0 || peak > 256<<10 {
		t.Errorf("the service took %d KiB, and its deployment gives it %d", peak, 256<<10)
	}
	if group != "" {
		if said, err := os.ReadFile(filepath.Join(group, "memory.oom_control")); err != nil || !strings.Contains(string(said), "oom_kill 0") {
			t.Errorf("in its control group: %s, %v", said, err)
		}
	}
}

// endless is the body of a request, which stops before its end.
type endless struct {
	ctx    context.Context
	left   int
	stalls chan struct{}
}

func (e *endless) Read(b []byte) (int, error) {
	if e.left == 0 {
		close(e.stalls)
		<-e.ctx.Done()
		return 0, context.Cause(e.ctx)
	}
	n := min(len(b), e.left)
	e.left -= n
	return n, nil
}

// controlGroup makes a control group with so much memory, and returns its
// directory, or nothing where this user or machine cannot have one.
func controlGroup(t *testing.T, bytes int) string {
	t.Helper()
	dir := fmt.Sprintf("/sys/fs/cgroup/memory/waybill-%d", os.Getpid())
	if os.Mkdir(dir, 0o755) != nil {
		return ""
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), fmt.Append(nil, bytes), 0o600); err != nil {
		return ""
	}
	return dir
}
