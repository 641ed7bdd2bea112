package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/caller"
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

func errBusy() error {
	return verdict.Refuse(verdict.Busy, "gate", "it has more to decide than it can")
}

// maxRates bounds the callers whose rate is kept: there are no more than the
// book has.
const maxRates = 10_000

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
	now, most := r.clock(), float64(10*r.perSecond)
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

// How long the keys of an issuer are kept, and how soon after a question the
// same issuer is asked again.
const (
	keysLife  = 10 * time.Minute
	keysPause = 10 * time.Second
)

// keyring are the keys of the issuers of the book.
type keyring struct {
	fetch func(ctx context.Context, issuer string) (caller.Keys, error)
	clock func() time.Time

	mu  sync.Mutex // owns all, not what it holds
	all map[string]*issuerKeys
}

type issuerKeys struct {
	mu    sync.Mutex // held while the issuer is asked
	keys  caller.Keys
	known bool
	at    time.Time // when they were fetched
	asked time.Time // when it was asked last, whatever came of it
	err   error
}

// of returns the keys of an issuer. Fresh asks for them anew, which a key that
// nobody knows is a reason for, but not more often than now and then.
func (k *keyring) of(ctx context.Context, issuer string, fresh bool) (caller.Keys, error) {
	k.mu.Lock()
	if k.all == nil {
		k.all = map[string]*issuerKeys{}
	}
	one := k.all[issuer]
	if one == nil {
		one = &issuerKeys{}
		k.all[issuer] = one
	}
	k.mu.Unlock()

	one.mu.Lock()
	defer one.mu.Unlock()
	now := k.clock()
	old := !one.known || fresh || now.Sub(one.at) >= keysLife
	if old && (one.asked.IsZero() || now.Sub(one.asked) >= keysPause) {
		keys, err := k.fetch(ctx, issuer)
		if one.asked, one.err = now, err; err == nil {
			one.keys, one.known, one.at = keys, true, now
		}
	}
	if !one.known {
		return caller.Keys{}, one.err
	}
	return one.keys, nil
}
