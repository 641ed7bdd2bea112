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
					const requests, workers = 8000, 128
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
