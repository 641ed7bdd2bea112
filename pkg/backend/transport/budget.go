package transport

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The default number of concurrent requests to one host: at first, and at most
// for a host that never asked for less. At 50 ms per answer, the first value
// allows 1,280 requests a second.
const (
	firstPerHost = 64
	mostPerHost  = 96
)

// The same for a host that answers a batch of requests at a time; see [Batched].
const (
	firstBatched = 128
	mostBatched  = 256
)

// The gap between requests after a host asked for less: first and longest.
const (
	firstGap   = 4 * time.Millisecond
	slowestGap = time.Second
)

// BusyError reports a host that asks clients to wait for longer than the
// patience. Nothing was sent.
type BusyError struct {
	Host string
	Wait time.Duration
}

// Error names the host and the wait.
func (e *BusyError) Error() string {
	return fmt.Sprintf("sending a request to %q: the host asks to wait for %s", e.Host, e.Wait.Round(time.Second))
}

// Unavailable reports that no request was sent.
func (e *BusyError) Unavailable() bool { return true }

// hosts holds the budgets, one for each origin.
type hosts struct {
	first, most int

	mu       sync.Mutex // guards byOrigin, not its values
	byOrigin map[string]*host
}

func (h *hosts) of(origin string) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byOrigin == nil {
		h.byOrigin = map[string]*host{}
	}
	one, ok := h.byOrigin[origin]
	if !ok {
		one = &host{name: origin, first: float64(h.first), most: float64(h.most), limit: float64(h.first)}
		h.byOrigin[origin] = one
	}
	return one
}

// host is the budget of one host: how many requests at a time, how often, and
// not before when. Each 429 reduces it; each other answer slowly raises it.
type host struct {
	name  string
	first float64

	mu    sync.Mutex // guards the fields below
	most  float64    // upper bound of limit; at most the first value once the host asked for less
	limit float64    // requests that wait for an answer
	grow  float64    // how much an answer raises the limit at least
	busy  int
	until time.Time     // no request is sent before
	gap   time.Duration // between two requests, 0 for none
	next  time.Time     // when the next request may be sent, if there is a gap
	down  bool          // a caller gave up, and no request was answered since
	// waiting are the callers that wait for a slot, in order; each is woken
	// once.
	waiting []chan struct{}
}

// enter waits for a slot. It fails if the host asks for more than patience, or
// when the context ends.
func (h *host) enter(ctx context.Context, slot bool, patience time.Duration) error {
	err := h.turn(ctx, slot, patience)
	if err != nil && slot { // this caller may have been woken for a slot that another took
		h.mu.Lock()
		defer h.mu.Unlock()
		h.wake()
	}
	return err
}

func (h *host) turn(ctx context.Context, slot bool, patience time.Duration) error {
	for {
		h.mu.Lock()
		now := time.Now()
		at := h.until
		if h.gap > 0 && h.next.After(at) {
			at = h.next
		}
		wait, full := at.Sub(now), slot && h.busy >= int(h.limit)
		if wait <= 0 && !full {
			if slot {
				h.busy++
			}
			h.next = now.Add(h.gap)
			h.mu.Unlock()
			return nil
		}
		var free chan struct{}
		if wait <= 0 {
			free = make(chan struct{})
			h.waiting = append(h.waiting, free)
		}
		h.mu.Unlock()
		switch {
		case h.asksTooMuch(now, patience):
			h.forget(free)
			return &BusyError{Host: h.name, Wait: wait}
		case wait > 0:
			if err := Sleep(ctx, wait); err != nil {
				return err
			}
		default:
			select {
			case <-free:
			case <-ctx.Done():
				h.forget(free)
				return context.Cause(ctx)
			}
		}
	}
}

// forget removes a caller that gives up from the queue.
func (h *host) forget(free chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.waiting, free); i >= 0 {
		h.waiting = slices.Delete(h.waiting, i, i+1)
	}
}

// wake wakes as many waiting callers as there are slots. The caller holds mu.
func (h *host) wake() {
	for free := int(h.limit) - h.busy; free > 0 && len(h.waiting) > 0; free-- {
		close(h.waiting[0])
		h.waiting = h.waiting[1:]
	}
}

func (h *host) asksTooMuch(now time.Time, patience time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until.Sub(now) > patience
}

// Batched returns a context for requests to a host that answers a batch of them
// at a time, and so keeps each waiting: many more of them may wait, twice as many
// after each batch, until the host asks for less. [Config.PerHost] still limits them.
func Batched(ctx context.Context) context.Context {
	return context.WithValue(ctx, batched{}, true)
}

type batched struct{}

// batch applies what [Batched] says, unless the host asked for less before.
func (h *host) batch(ctx context.Context) {
	if ctx.Value(batched{}) == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.grow == 0 && h.most > h.first {
		h.most, h.limit, h.grow = mostBatched, firstBatched, 1
	}
}

// lesson is what an attempt revealed about its host.
type lesson struct {
	overloaded bool          // the host asks for fewer requests
	pause      time.Duration // and for none during this time
	answered   bool          // the host works normally
}

// leave frees the slot and applies the lesson.
func (h *host) leave(slot bool, l lesson) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch {
	case l.overloaded:
		h.most, h.grow = h.first, 0
		if now.After(h.until) { // the first of several requests under way
			h.limit = max(1, min(h.limit, float64(h.busy))/2)
			h.gap = min(max(h.gap+h.gap/2, firstGap), slowestGap)
		}
		if until := now.Add(l.pause); until.After(h.until) {
			h.until = until
		}
	case l.answered:
		h.down = false
		h.limit = min(h.most, h.limit+max(h.grow, 1/h.limit))
		// One tenth more often after each second: about as many answers come in
		// a second as gaps fit into it.
		if h.gap -= time.Duration(float64(h.gap) * h.gap.Seconds() / 10); h.gap < time.Millisecond {
			h.gap = 0
		}
	}
	if slot {
		h.busy--
	}
	h.wake()
}

// gaveUp reports whether a caller gave up on the host, so that the next one
// need not try as long to learn the same.
func (h *host) gaveUp() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

func (h *host) giveUp(tried bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = h.down || tried
}
