package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/gateway/ask"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// slots bound how many requests are dealt with, and how many wait.
type slots struct{ work, room chan struct{} }

func newSlots(atOnce, queue int) slots {
	return slots{work: make(chan struct{}, atOnce), room: make(chan struct{}, atOnce+queue)}
}

// enter waits for a slot. Where too many wait already it refuses at once.
func (s slots) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.room <- struct{}{}:
	default:
		return nil, errBusy()
	}
	select {
	case s.work <- struct{}{}:
		return func() { <-s.work; <-s.room }, nil
	case <-ctx.Done():
		<-s.room
		return nil, errBusy()
	}
}

// askLater is the next act of who was not let in because too much is asked.
const askLater = "nothing was decided; ask again after the time that Retry-After says"

func errBusy() error {
	return verdict.Refuse(verdict.Busy, "gate", "it has more to decide than it can").Advise(askLater)
}

// maxRates bounds the callers whose rate is kept: there are no more than the
// book has.
const maxRates = 10_000

// burst is for how many seconds at once a caller may ask what it may ask.
const burst = 10

// batch is how many decisions a request may ask for: no more than a caller may
// ask for at once, or it would be told for ever to come again.
func (l Limits) batch() int { return min(ask.MaxBatch, burst*l.PerCaller) }

// rates are how much each caller may still ask.
type rates struct {
	perSecond int
	clock     func() time.Time

	mu  sync.Mutex // owns all
	all map[string]*rate
}

type rate struct {
	left float64
	at   time.Time
}

// take takes n decisions from what a caller may ask.
func (r *rates) take(name string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= maxRates {
		r.all = map[string]*rate{}
	}
	now, most := r.clock(), float64(burst*r.perSecond)
	one := r.all[name]
	if one == nil {
		one = &rate{left: most, at: now}
		r.all[name] = one
	}
	one.left = min(most, one.left+max(0, now.Sub(one.at).Seconds())*float64(r.perSecond))
	one.at = now
	if one.left < float64(n) {
		return false
	}
	one.left -= float64(n)
	return true
}
