package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/caller"
)

// How long the keys of an issuer are kept before they are asked for anew, and
// how long at most, where it does not answer; how soon after a question the same
// issuer is asked again, and how long it is waited for.
const (
	keysLife  = 10 * time.Minute
	keysMost  = 24 * time.Hour
	keysPause = 10 * time.Second
	keysTime  = 5 * time.Second
)

// keyring are the keys of the issuers of the book.
type keyring struct {
	fetch func(ctx context.Context, issuer string) (caller.Keys, error)
	clock func() time.Time

	mu  sync.Mutex // owns all, not what it holds
	all map[string]*issuerKeys
}

type issuerKeys struct {
	mu     sync.Mutex // owns the rest
	keys   caller.Keys
	at     time.Time     // when they were fetched; zero for never
	asked  time.Time     // when it was asked last, whatever came of it
	asking chan struct{} // closed when it has answered; nil where it is not asked
	err    error
}

// of returns the keys of an issuer. Fresh asks for them anew, which a key that
// nobody knows is a reason for, but not more often than now and then. Who goes
// away meanwhile takes nobody along: the question is everybody's.
func (k *keyring) of(ctx context.Context, issuer string, fresh bool) (caller.Keys, error) {
	one := k.at(issuer)
	one.mu.Lock()
	now := k.clock()
	usable := one.usable(now)
	old := !usable || fresh || now.Sub(one.at) >= keysLife
	if old && one.asking == nil && (one.asked.IsZero() || now.Sub(one.asked) >= keysPause) {
		one.asked, one.asking = now, make(chan struct{})
		go k.ask(context.WithoutCancel(ctx), issuer, one)
	}
	answer := one.asking
	one.mu.Unlock()

	if answer != nil && (fresh || !usable) {
		select {
		case <-answer:
		case <-ctx.Done():
			return caller.Keys{}, unavailable(issuer, context.Cause(ctx))
		}
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	switch {
	case one.usable(k.clock()):
		return one.keys, nil
	case one.err == nil:
		return caller.Keys{}, unavailable(issuer, fmt.Errorf("it has not answered for %s", keysMost))
	}
	return caller.Keys{}, one.err
}

func (k *keyring) at(issuer string) *issuerKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]*issuerKeys{}
	}
	one := k.all[issuer]
	if one == nil {
		one = &issuerKeys{}
		k.all[issuer] = one
	}
	return one
}

// usable reports whether there are keys that tokens can be held against.
func (i *issuerKeys) usable(now time.Time) bool {
	return !i.at.IsZero() && now.Sub(i.at) < keysMost
}

// ask asks an issuer, once.
func (k *keyring) ask(ctx context.Context, issuer string, one *issuerKeys) {
	ctx, stop := context.WithTimeout(ctx, keysTime)
	defer stop()
	keys, err := k.fetched(ctx, issuer)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.err = err; err == nil {
		one.keys, one.at = keys, k.clock()
	}
	close(one.asking)
	one.asking = nil
}

func (k *keyring) fetched(ctx context.Context, issuer string) (keys caller.Keys, err error) {
	defer func() {
		if p := recover(); p != nil { // nothing that an issuer says ends the service
			err = unavailable(issuer, fmt.Errorf("what it says is not to be read"))
		}
	}()
	return k.fetch(ctx, issuer)
}
