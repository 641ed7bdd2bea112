package transport

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// How many requests wait for one host's answer where nobody said how many: what
// a stranger is asked at first, and what one is asked that never asked for less.
// A host 50 ms away answers no more than 1,280 requests a second to the first.
const (
	firstPerHost = 64
	mostPerHost  = 96
)

// The pace after a host asked for less: first and slowest.
const (
	firstGap   = 4 * time.Millisecond
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
	first, most int

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
		one = &host{name: origin, first: float64(h.first), most: float64(h.most), limit: float64(h.first)}
		h.byOrigin[origin] = one
	}
	return one
}

// host is what one host may be asked: how much at once, how often, and not
// before when. Less at each 429, slowly more with each other answer.
type host struct {
	name  string
	first float64

	mu    sync.Mutex // owns the rest
	most  float64    // that limit grows to; no more than first once it asked for less
	limit float64    // of requests that wait for an answer
	busy  int
	until time.Time     // nobody asks before
	gap   time.Duration // between two requests, 0 for none
	next  time.Time     // when the next may be sent, where there is a gap
	down  bool          // somebody gave up, and nobody was answered since
	// waiting are those that wait for a slot, in order; each is woken once.
	waiting []chan struct{}
}

// enter waits for a turn. It ends with an error if the host asks for more than
// patience, or with the context.
func (h *host) enter(ctx context.Context, slot bool, patience time.Duration) error {
	err := h.turn(ctx, slot, patience)
	if err != nil && slot { // it may have been woken for a slot that is now another's
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

// forget takes somebody who goes away off the list of those that wait.
func (h *host) forget(free chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.waiting, free); i >= 0 {
		h.waiting = slices.Delete(h.waiting, i, i+1)
	}
}

// wake wakes as many of those that wait as there are slots. It needs mu.
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
		h.most = h.first
		if now.After(h.until) { // the first of those that were on their way
			h.limit = max(1, min(h.limit, float64(h.busy))/2)
			h.gap = min(max(h.gap+h.gap/2, firstGap), slowestGap)
		}
		if until := now.Add(l.pause); until.After(h.until) {
			h.until = until
		}
	case l.answered:
		h.down = false
		h.limit = min(h.most, h.limit+1/h.limit)
		// A tenth more often after each second: in that time as many answers
		// come as the gap goes into it.
		if h.gap -= time.Duration(float64(h.gap) * h.gap.Seconds() / 10); h.gap < time.Millisecond {
			h.gap = 0
		}
	}
	if slot {
		h.busy--
	}
	h.wake()
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
