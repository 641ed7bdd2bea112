package transport

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// served is a transport whose every connection is a pipe to handler, so that
// both can live under the clock of a synctest bubble.
func served(c Config, handler http.HandlerFunc) (rt *Transport, done func()) {
	pipes := pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: handler} //nolint:gosec // nobody else can connect
	go func() { _ = srv.Serve(pipes) }()
	rt = New(c)
	rt.wires.open.DialContext = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		pipes.conns <- there
		return here, nil
	}
	return rt, func() {
		rt.wires.open.CloseIdleConnections()
		_ = srv.Close()
		time.Sleep(time.Minute) // of the bubble: until every handler noticed
	}
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error   { close(l.closed); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// get asks once and returns the status, 0 for an error.
func get(t *testing.T, rt *Transport) int {
	t.Helper()
	resp, err := Client(rt).Get("http://a.example/")
	if err != nil {
		t.Logf("asking: %v", err)
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

// Row 1: whatever the form of Retry-After, nobody asks sooner, no worker asks
// while another was told to wait, and what is absurd ends at once.
func TestRetryAfterIsHonouredByAllWorkers(t *testing.T) {
	for _, c := range []struct {
		name, value string
		wait        time.Duration
		want        int
	}{
		{"seconds", "20", 20 * time.Second, 200},
		{"date", "in 20 s", 20 * time.Second, 200},
		{"date of a clock that is an hour ahead", "in 1 h 20 s", 20 * time.Second, 200},
		{"date of a clock that is an hour behind", "59 min 40 s ago", 20 * time.Second, 200},
		{"a date that has passed", "20 s ago", 0, 200},
		{"more than there is patience", "90", 0, 0},
		{"absurd", "1000000000", 0, 0},
		{"more than an integer", "99999999999999999999", 0, 0},
		{"nonsense is none", "-5", 0, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				value, ahead := c.value, time.Duration(0)
				switch value {
				case "in 20 s":
					value = begun.Add(20 * time.Second).UTC().Format(http.TimeFormat)
				case "20 s ago":
					value = begun.Add(-20 * time.Second).UTC().Format(http.TimeFormat)
				case "in 1 h 20 s":
					ahead, value = time.Hour, begun.Add(time.Hour+20*time.Second).UTC().Format(http.TimeFormat)
				case "59 min 40 s ago":
					ahead, value = -time.Hour, begun.Add(20*time.Second-time.Hour).UTC().Format(http.TimeFormat)
				}
				var mu sync.Mutex
				var late []time.Duration
				first := true
				rt, done := served(Config{}, func(w http.ResponseWriter, _ *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					if first {
						first = false
						w.Header().Set("Retry-After", value)
						w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
						w.WriteHeader(429)
						return
					}
					late = append(late, time.Since(begun))
				})
				defer done()
				told := get(t, rt)
				if c.want == 0 && told != 429 {
					t.Fatalf("status %d, want the 429 as it is", told)
				}
				if c.want != 0 && told != c.want {
					t.Fatalf("status %d", told)
				}
				var group sync.WaitGroup
				var bad atomic.Int32
				for range 8 {
					group.Go(func() {
						if get(t, rt) != c.want {
							bad.Add(1)
						}
					})
				}
				group.Wait()
				if bad.Load() > 0 {
					t.Errorf("%d of 8 workers did not end with %d", bad.Load(), c.want)
				}
				if c.want == 0 && len(late) > 0 {
					t.Errorf("asked again %v", late)
				}
				for _, l := range late {
					if l < c.wait {
						t.Errorf("asked again after %s, was told to wait %s", l, c.wait)
					}
				}
			})
		})
	}
}

// One worker is told to wait: the others, on their way, wait as well.
func TestWorkersShareOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var mu sync.Mutex
		n, early, most, now := 0, 0, 0, 0
		rt, done := served(Config{}, func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			n++
			one := n
			now++
			if time.Since(begun) > 2*time.Second {
				most = max(most, now)
				if time.Since(begun) < 11*time.Second {
					early++
				}
			}
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			if one <= 32 {
				w.Header().Set("Retry-After", "10")
				w.WriteHeader(429)
			}
		})
		defer done()
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() {
				if get(t, rt) != 200 {
					t.Error("a worker gave up")
				}
			})
		}
		group.Wait()
		if early > 0 {
			t.Errorf("%d requests came while everybody was to wait", early)
		}
		if most > 32 {
			t.Errorf("%d requests at once after a host of 64 asked for less", most)
		}
	})
}

// Row 2: a host that says 429 for a quarter of an hour is asked less and less
// often, and at the end that is the answer: nothing was refused.
func TestSustained429EndsWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var at []time.Duration
		rt, done := served(Config{Attempts: 100, Patience: 15 * time.Minute}, func(w http.ResponseWriter, _ *http.Request) {
			at = append(at, time.Since(begun))
			w.WriteHeader(429)
		})
		defer done()
		if got := get(t, rt); got != 429 {
			t.Errorf("status %d", got)
		}
		took := time.Since(begun)
		if took > 15*time.Minute || took < 14*time.Minute {
			t.Errorf("gave up after %s", took)
		}
		if len(at) < 30 || len(at) > 80 {
			t.Errorf("asked %d times in %s", len(at), took)
		}
		if last := at[len(at)-1] - at[len(at)-2]; last < 14*time.Second || last > 31*time.Second {
			t.Errorf("the last pause was %s", last)
		}
		asked := len(at)
		if get(t, rt); len(at) != asked+1 {
			t.Errorf("after giving up, the next request asked %d times", len(at)-asked)
		}
	})
}

// Who has no time for the pause that is asked for is given the answer that there
// is, and nobody else is told that the host was given up.
func TestNoTimeForAnotherAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		rt, done := served(Config{}, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(503)
		})
		defer done()
		begun := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Second)
		defer stop()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.example/", nil)
		resp, err := Client(rt).Do(req)
		if err != nil {
			t.Fatalf("the last answer is lost: %v", err)
		}
		resp.Body.Close()
		if took := time.Since(begun); resp.StatusCode != 503 || asked != 3 || took < 10*time.Second || took > 12*time.Second {
			t.Errorf("status %d after asking %d times in %s", resp.StatusCode, asked, took)
		}
		if get(t, rt); asked < 6 {
			t.Errorf("somebody who has time asked %d times", asked-3)
		}
	})
}

// Row 3: bursts of 5xx, three in ten answers, many seeds: everything that may be
// repeated ends well.
func TestBurstsAreRiddenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(50) {
			chance := rand.New(rand.NewPCG(seed, 3))
			asked, failed := 0, 0
			rt, done := served(Config{}, func(w http.ResponseWriter, _ *http.Request) {
				asked++
				if chance.Float64() < 0.3 {
					failed++
					w.WriteHeader([]int{500, 502, 503, 504}[chance.IntN(4)])
				}
			})
			for range 200 {
				if got := get(t, rt); got != 200 {
					t.Fatalf("seed %d: status %d", seed, got)
				}
			}
			if asked != 200+failed || failed < 40 {
				t.Errorf("seed %d: asked %d times, of which %d failed", seed, asked, failed)
			}
			done()
		}
	})
}

// Row 8: a header that never comes, and a body that comes a byte at a time.
func TestSlowServersEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		least   time.Duration
		most    time.Duration
	}{
		{"no header", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 30 * time.Second, 31 * time.Second},
		{"no byte", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, 30 * time.Second, 31 * time.Second},
		{"a byte a second", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100000")
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte("x"))
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		}, 30 * time.Second, 32 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, done := served(Config{}, c.handler)
				defer done()
				begun := time.Now()
				resp, err := Client(rt).Get("http://a.example/")
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if err == nil {
					t.Error("a server that does not answer was waited for in vain, and nobody said so")
				}
				if took := time.Since(begun); took < c.least || took > c.most {
					t.Errorf("ended after %s with %v, want between %s and %s", took, err, c.least, c.most)
				}
			})
		})
	}
}

// A slow line that moves is not a slow server.
func TestSteadyBodyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, done := served(Config{}, func(w http.ResponseWriter, _ *http.Request) {
			for range 300 {
				_, _ = w.Write(make([]byte, 16<<10))
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		})
		defer done()
		resp, err := Client(rt).Get("http://a.example/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); n != 300*16<<10 || err != nil {
			t.Errorf("received %d bytes, %v", n, err)
		}
	})
}
