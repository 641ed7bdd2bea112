package transport

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The pace after a host asked for less: first and slowest.
const (
	firstGap   = 10 * time.Millisecond
	slowestGap = time.Second
)

// BusyError reports a host that asks everybody to wait for longer than there is
// patience. Nothing was sent.
type BusyError struct {
	Host string
	Wait time.Duration
}

// Error names the host and the wait.
func (e *BusyError) Error() string {
	return fmt.Sprintf("asking %q: it asks to wait for %s", e.Host, e.Wait.Round(time.Second))
}

// Unavailable reports that the world was not asked.
func (e *BusyError) Unavailable() bool { return true }

// hosts are the budgets, one for each origin.
type hosts struct {
	most int

	mu       sync.Mutex // owns byOrigin, not what it holds
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
		one = &host{name: origin, most: float64(h.most), limit: float64(h.most), moved: make(chan struct{})}
		h.byOrigin[origin] = one
	}
	return one
}

// host is what one host may be asked: how much at once, how often, and not
// before when. Less at each 429, slowly more with each other answer.
type host struct {
	name string
	most float64

	mu    sync.Mutex // owns the rest
	limit float64    // of requests that wait for an answer
	busy  int
	until time.Time     // nobody asks before
	gap   time.Duration // between two requests, 0 for none
	next  time.Time     // when the next may be sent, where there is a gap
	down  bool          // somebody gave up, and nobody was answered since
	moved chan struct{} // closed when a slot comes free
}

// enter waits for a turn. It ends with an error if the host asks for more than
// patience, or with the context.
func (h *host) enter(ctx context.Context, slot bool, patience time.Duration) error {
	for {
		h.mu.Lock()
		now := time.Now()
		at := h.until
		if h.gap > 0 && h.next.After(at) {
			at = h.next
		}
		wait, full, moved := at.Sub(now), slot && h.busy >= int(h.limit), h.moved
		if wait <= 0 && !full {
			if slot {
				h.busy++
			}
			h.next = now.Add(h.gap)
			h.mu.Unlock()
			return nil
		}
		h.mu.Unlock()
		switch {
		case h.asksTooMuch(now, patience):
			return &BusyError{Host: h.name, Wait: wait}
		case wait > 0:
			if err := Sleep(ctx, wait); err != nil {
				return err
			}
		default:
			select {
			case <-moved:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

func (h *host) asksTooMuch(now time.Time, patience time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until.Sub(now) > patience
}

// lesson is what an attempt said about its host.
type lesson struct {
	overloaded bool          // it asks for less
	pause      time.Duration // and for that long for nothing
	answered   bool          // it does its work
}

// leave gives the turn back and learns.
func (h *host) leave(slot bool, l lesson) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch {
	case l.overloaded:
		if now.After(h.until) { // the first of those that were on their way
			h.limit = max(1, min(h.limit, float64(h.busy))/2)
			h.gap = min(max(2*h.gap, firstGap), slowestGap)
		}
		if until := now.Add(l.pause); until.After(h.until) {
			h.until = until
		}
	case l.answered:
		h.down = false
		h.limit = min(h.most, h.limit+1/h.limit)
		if h.gap -= h.gap / 8; h.gap < time.Millisecond {
			h.gap = 0
		}
	}
	if slot {
		h.busy--
	}
	close(h.moved)
	h.moved = make(chan struct{})
}

// gaveUp reports whether somebody gave up on the host, so that the next need
// not try as long to learn the same.
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
