package faults_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/faults"
)

// someWrites is how many writes fail in each way, unless all are asked for.
const someWrites = 6

// nth is a script that meets the nth request that changes something, counted
// from 1 over all doors that share it.
type nth struct {
	at int
	do faults.Act

	mu   sync.Mutex // owns the rest
	seen int
	hit  string
}

func (n *nth) act(w http.ResponseWriter, r *http.Request, next http.Handler) {
	n.mu.Lock()
	n.seen++
	mine := n.seen == n.at
	if mine {
		n.hit = r.Method + " " + r.URL.Path
	}
	n.mu.Unlock()
	if mine {
		n.do(w, r, next)
		return
	}
	next.ServeHTTP(w, r)
}

func (n *nth) met() (seen int, hit string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen, n.hit
}

// before puts the script before every write to the regions and to the services
// of signing.
func (n *nth) before(c *carry) {
	for _, p := range []*faults.Proxy{c.registry, c.us, c.fulcio, c.rekor, c.tsa} {
		p.Spoil(faults.Fault{Method: "POST", Do: n.act}, faults.Fault{Method: "PUT", Do: n.act}, faults.Fault{Method: "PATCH", Do: n.act})
	}
}

// countWrites is how many writes a promotion has that nobody spoils.
func countWrites(t *testing.T) int {
	t.Helper()
	c, n := newCarry(t), &nth{}
	n.before(c)
	want(t, c.apply(), 0)
	seen, _ := n.met()
	return seen
}

// TestLongCarryAtEachWrite: each write of a promotion, to a region, to the authority,
// to the log or to the timestamps, fails once in each of three ways: it is not
// done, and said so; it is done, and said to have failed; it is said to be done,
// and lost. WAYBILL_STRIKES=all does all writes.
func TestLongCarryAtEachWrite(t *testing.T) {
	total := countWrites(t)
	for _, way := range []struct {
		name string
		do   faults.Act
	}{
		{"fails", faults.Status(403)},
		{"fails, and is done", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusForbidden)
		}},
		{"is said to be done", faults.Loses(201, "")},
	} {
		before, made, ended := entries(t), 0, map[int]int{}
		var mu sync.Mutex // owns made and ended
		t.Run(way.name, func(t *testing.T) {
			for _, at := range places(total, someWrites) {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					t.Parallel()
					c, n := newCarry(t), &nth{at: at, do: way.do}
					n.before(c)
					r := c.hurried()
					_, hit := n.met()
					public := c.sound()
					if hit != "" && r.Code == 0 && public != 2 || r.Code != 0 && r.Code != 1 && r.Code != 3 {
						t.Errorf("%s: status %d, in %d regions\n%s%s", hit, r.Code, public, r.Stdout, r.Stderr)
					}
					c.mended()
					mu.Lock()
					defer mu.Unlock()
					made += c.made()
					ended[r.Code]++
				})
			}
		})
		if !t.Failed() {
			once(t, before, made)
		}
		t.Logf("%s: of %d writes; it ended with %v, and all converged", way.name, total, ended)
	}
}

// start starts the command, for those who end it otherwise.
func (c *carry) start(args ...string) (*exec.Cmd, *os.File) {
	c.t.Helper()
	log, err := os.CreateTemp(c.t.TempDir(), "log")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { log.Close() })
	cmd := exec.Command(filepath.Join(staged.Bin, args[0]), args[1:]...)
	cmd.Dir, cmd.Env = staged.Dir, append(os.Environ(), "XDG_CACHE_HOME="+staged.Path("cache"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	return cmd, log
}

// Row 40 at each write, and row 41: a run is killed, or asked to end, while a
// write is under way. Who is asked ends soon, says so, and decides nothing.
func TestLongCarryEndedAtEachWrite(t *testing.T) {
	total := countWrites(t)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		before, made := entries(t), 0
		var mu sync.Mutex // owns made
		t.Run(signal.String(), func(t *testing.T) {
			for _, at := range places(total, someWrites) {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					t.Parallel()
					c := newCarry(t)
					c.endedAt(at, signal)
					c.mended()
					mu.Lock()
					defer mu.Unlock()
					made += c.made()
				})
			}
		})
		if !t.Failed() {
			once(t, before, made)
		}
	}
}

// endedAt sends a signal when a write arrives, does the write all the same, and
// answers it when the run has ended or a while later.
func (c *carry) endedAt(at int, signal syscall.Signal) {
	c.t.Helper()
	arrived, sent := make(chan struct{}), make(chan struct{})
	n := &nth{at: at, do: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		close(arrived)
		<-sent
		next.ServeHTTP(w, r)
	}}
	n.before(c)
	cmd, log := c.start(c.args()...)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-arrived:
		if err := cmd.Process.Signal(signal); err != nil {
			c.t.Error(err)
		}
		close(sent)
	case err := <-ended:
		c.t.Fatalf("it ended before write %d: %v", at, err)
	}
	select {
	case <-ended:
	case <-time.After(25 * time.Second):
		_ = cmd.Process.Kill()
		c.t.Error("it did not end")
		<-ended
	}
	said, err := os.ReadFile(log.Name())
	if err != nil {
		c.t.Fatal(err)
	}
	public := c.sound()
	if signal == syscall.SIGKILL {
		return
	}
	_, hit := n.met()
	if code := cmd.ProcessState.ExitCode(); code != 3 && (code != 0 || public != 2) {
		c.t.Errorf("%s: status %d, in %d regions\n%s", hit, code, public, said)
	}
}
