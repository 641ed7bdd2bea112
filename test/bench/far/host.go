package far

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/waybill-release/waybill/test/lab/registry"
)

// Host is a registry on loopback, as far away as is asked, that counts what it
// is asked.
type Host struct {
	Name   string // host and port
	server *http.Server

	mu    sync.Mutex // owns asked
	asked map[string]int
}

// Open serves the registry that a directory holds.
func Open(dir string, trip time.Duration) (*Host, error) { return OpenLimited(dir, trip, nil) }

// Refused is how requests are counted that came too early.
const Refused = "refused"

// OpenLimited is [Open] with a quota, which hosts can share: requests beyond it
// are told to come again in a second.
func OpenLimited(dir string, trip time.Duration, quota *rate.Limiter) (*Host, error) {
	at, err := registry.New(dir)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &Host{Name: listener.Addr().String(), asked: map[string]int{}}
	h.server = &http.Server{Handler: h.counting(at, quota), ReadHeaderTimeout: time.Minute}
	go func() { _ = h.server.Serve(Listener{listener, trip}) }() // until it is closed
	return h, nil
}

func (h *Host) counting(next http.Handler, quota *rate.Limiter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + kind(r.URL.Path)
		early := quota != nil && !quota.Allow()
		if early {
			what = Refused
		}
		h.mu.Lock()
		h.asked[what]++
		h.mu.Unlock()
		if early {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// kind is what a path is about: manifests, blobs, referrers, tags or nothing.
func kind(path string) string {
	for _, k := range []string{"manifests", "blobs", "referrers", "tags"} {
		if strings.Contains(path, "/"+k+"/") {
			return k
		}
	}
	return "greeting"
}

// Count says what was asked since it was last counted.
func (h *Host) Count() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.asked
	h.asked = map[string]int{}
	return was
}

// Close ends it.
func (h *Host) Close() error {
	if err := h.server.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Sum adds up what several hosts were asked.
func Sum(counts ...map[string]int) (all map[string]int, total int) {
	all = map[string]int{}
	for _, c := range counts {
		for what, n := range maps.All(c) {
			all[what] += n
			total += n
		}
	}
	return all, total
}
