package transport

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// quota is a host that takes so many requests a second, and refuses the rest.
type quota struct {
	rate  int
	after string // Retry-After, if any

	mu               sync.Mutex // guards the rest
	second           time.Time
	taken, came      int // in this second
	refused, busiest int // of all, and in the busiest second after the first
	begun            time.Time
}

// ServeHTTP takes a request or refuses it, and then works on it for a while.
func (q *quota) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	q.mu.Lock()
	now := time.Now()
	if now.Sub(q.second) >= time.Second {
		q.second, q.taken, q.came = now, 0, 0
	}
	q.came++
	if now.Sub(q.begun) > 5*time.Second {
		q.busiest = max(q.busiest, q.came)
	}
	no := q.taken >= q.rate
	if no {
		q.refused++
	} else {
		q.taken++
	}
	q.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	if no {
		if q.after != "" {
			w.Header().Set("Retry-After", q.after)
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// Rows 1 and 2, for as long as a large promotion takes: who works for minutes on
// a host with a quota loses nothing, comes near to what the host gives, and
// does not come back as a storm: once it knows the host, few of its requests
// are refused.
func TestQuotaIsLivedWith(t *testing.T) {
	for _, c := range []struct{ name, after string }{{"told how long", "1"}, {"not told", ""}} {
		for _, rate := range []int{20, 83, 400} {
			t.Run(fmt.Sprintf("%s, %d a second", c.name, rate), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := &quota{rate: rate, after: c.after, begun: time.Now()}
					rt, done := served(Config{Patience: 2 * time.Minute}, q.ServeHTTP)
					defer done()
					const workers = 128
					requests := min(8000, 100*rate)
					work := make(chan int)
					var group sync.WaitGroup
					for range workers {
						group.Go(func() {
							for range work {
								if got := get(t, rt); got != 200 {
									t.Errorf("status %d", got)
								}
							}
						})
					}
					for i := range requests {
						work <- i
					}
					close(work)
					group.Wait()
					took := time.Since(q.begun)
					least := requests / rate * int(time.Second)
					t.Logf("%d a second: took %s, at the least %s; %d refused, at most %d asked in one second", rate, took, time.Duration(least), q.refused, q.busiest)
					if took > 2*time.Duration(least) {
						t.Errorf("took %s for what can be done in %s", took, time.Duration(least))
					}
					if q.refused > requests/10 || q.busiest > 2*rate {
						t.Errorf("%d of %d requests were refused, and up to %d came in one second where %d are taken", q.refused, requests, q.busiest, rate)
					}
				})
			})
		}
	}
}

// Whoever goes away while he waits for a slot takes nobody's turn with him.
func TestWaitersThatGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, done := served(Config{PerHost: 1}, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		defer done()
		var group sync.WaitGroup
		for i := range 40 {
			group.Go(func() {
				ctx := t.Context()
				if i%2 == 0 {
					short, cancel := context.WithTimeout(ctx, time.Duration(i)*100*time.Millisecond)
					defer cancel()
					ctx = short
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.example/", http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := Client(rt).Do(req)
				if err == nil {
					_ = resp.Body.Close()
				}
				if i%2 == 1 && err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	})
}

// crowd is a host that counts how many requests wait for its answer at a time.
type crowd struct {
	mu                      sync.Mutex // guards the rest
	answered, waiting, most int
	refuse                  int // the request that is refused, 0 for none
}

// ServeHTTP works on a request for a while.
func (c *crowd) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	c.answered++
	no := c.answered == c.refuse
	c.waiting++
	c.most = max(c.most, c.waiting)
	c.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	c.mu.Lock()
	c.waiting--
	c.mu.Unlock()
	if no {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// Whoever answers thousands of requests is asked more at a time, and nobody else
// is: not who has just been met, not who asked for less once, and not who is to
// get no more.
func TestMoreAtATime(t *testing.T) {
	for _, c := range []struct {
		name             string
		requests, refuse int
		config           Config
		want             int
	}{
		{"just met", 200, 0, Config{}, firstPerHost},
		{"answered thousands", 3000, 0, Config{}, mostPerHost},
		{"asked for less at once", 2600, 1, Config{}, firstPerHost},
		{"told how many", 1000, 0, Config{PerHost: 8}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := &crowd{refuse: c.refuse}
				rt, done := served(c.config, host.ServeHTTP)
				defer done()
				work := make(chan int)
				var group sync.WaitGroup
				for range mostPerHost + 8 {
					group.Go(func() {
						for range work {
							if got := get(t, rt); got != 200 {
								t.Errorf("status %d", got)
							}
						}
					})
				}
				for i := range c.requests {
					work <- i
				}
				close(work)
				group.Wait()
				if host.most < c.want || host.most > c.want+2 {
					t.Errorf("%d requests waited for an answer at a time, want %d", host.most, c.want)
				}
			})
		})
	}
}

// TestGitHubLimits: a 403 that says when to ask again is waited for, up to the
// patience; any other 403 is an answer.
func TestGitHubLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		header func(http.Header)
		asked  int64 // requests that come
		status int
	}{
		{"used up, begins anew", func(h http.Header) {
			h.Set("X-RateLimit-Remaining", "0")
			h.Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(20*time.Second).Unix()))
		}, 2, 200},
		{"used up, for an hour", func(h http.Header) {
			h.Set("X-RateLimit-Remaining", "0")
			h.Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()))
		}, 1, 403},
		{"secondary", func(h http.Header) { h.Set("Retry-After", "20") }, 2, 200},
		{"forbidden", func(h http.Header) {
			h.Set("X-RateLimit-Remaining", "12")
			h.Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(20*time.Second).Unix()))
		}, 1, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked int64
				rt, done := served(Config{Patience: time.Minute}, func(w http.ResponseWriter, _ *http.Request) {
					if asked++; asked == 1 {
						c.header(w.Header())
						w.WriteHeader(http.StatusForbidden)
					}
				})
				defer done()
				if got := get(t, rt); got != c.status || asked != c.asked {
					t.Errorf("status %d after %d requests, want %d after %d", got, asked, c.status, c.asked)
				}
			})
		})
	}
}

// TestBatches: a host that answers once a second gets more requests in each batch, until
// it asks for less; requests that are not marked stay as few as for any host.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name   string
		mark   func(context.Context) context.Context
		quota  int // of a batch; 0 for any number
		config Config
		most   time.Duration
		widest int // requests in a batch
	}{
		{"batched", Batched, 0, Config{}, 3 * time.Second, 256},
		{"not marked", func(ctx context.Context) context.Context { return ctx }, 0, Config{}, 8 * time.Second, 96},
		{"limited by the caller", Batched, 0, Config{PerHost: 10}, 51 * time.Second, 10},
		{"asks for less", Batched, 20, Config{Patience: 5 * time.Minute}, time.Minute, 128},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex // guards the counts
				begun, batch, widest, now := time.Now(), time.Duration(-1), 0, 0
				rt, done := served(c.config, func(w http.ResponseWriter, _ *http.Request) {
					mu.Lock()
					if number := time.Since(begun) / time.Second; number != batch {
						batch, now = number, 0
					}
					now++
					widest = max(widest, now)
					refused := c.quota > 0 && now > c.quota
					mu.Unlock()
					if refused {
						w.Header().Set("Retry-After", "1")
						w.WriteHeader(http.StatusTooManyRequests)
						return
					}
					time.Sleep(time.Second - time.Since(begun)%time.Second)
				})
				defer done()
				var group sync.WaitGroup
				for range 500 {
					group.Go(func() {
						req, err := http.NewRequestWithContext(c.mark(t.Context()), http.MethodGet, "http://a.example/", http.NoBody)
						if err != nil {
							t.Error(err)
							return
						}
						resp, err := Client(rt).Do(req)
						if err != nil {
							t.Error(err)
							return
						}
						_ = resp.Body.Close()
						if resp.StatusCode != http.StatusOK {
							t.Error(resp.Status)
						}
					})
				}
				group.Wait()
				if took := time.Since(begun); took > c.most || widest > c.widest {
					t.Errorf("took %s, with up to %d requests in a batch; want at most %s and %d", took, widest, c.most, c.widest)
				}
			})
		})
	}
}
