package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/caller"
)

// How long the keys of an issuer are used before they are fetched again, and
// how long at most if it does not answer; how soon the same issuer is asked
// again, and how long to wait for its answer.
const (
	keysLife  = 10 * time.Minute
	keysMost  = 24 * time.Hour
	keysPause = 10 * time.Second
	keysTime  = 5 * time.Second
)

// keyring caches the keys of the issuers in the book.
type keyring struct {
	fetch func(ctx context.Context, issuer string) (caller.Keys, error)
	clock func() time.Time

	mu  sync.Mutex // guards the map, not its values
	all map[string]*issuerKeys
}

type issuerKeys struct {
	mu     sync.Mutex // guards the fields below
	keys   caller.Keys
	at     time.Time     // when they were fetched; zero for never
	asked  time.Time     // time of the last request, successful or not
	asking chan struct{} // closed when the issuer has answered; nil if no request is under way
	err    error
}

// keysOf returns the keys of an issuer. With fresh it fetches them again, for a
// token with an unknown key, but not too often. The request does not depend on
// the caller's context, because all callers share it.
func (k *keyring) keysOf(ctx context.Context, issuer string, fresh bool) (caller.Keys, error) {
	one := k.entry(issuer)
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
		return caller.Keys{}, unavailable(issuer, fmt.Errorf("the issuer has not answered for %s", keysMost))
	}
	return caller.Keys{}, one.err
}

func (k *keyring) entry(issuer string) *issuerKeys {
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

// usable reports whether there are keys to verify tokens with.
func (i *issuerKeys) usable(now time.Time) bool {
	return !i.at.IsZero() && now.Sub(i.at) < keysMost
}

// ask sends one request to an issuer.
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
		if p := recover(); p != nil { // no answer of an issuer may end the service
			err = unavailable(issuer, fmt.Errorf("the answer cannot be parsed"))
		}
	}()
	return k.fetch(ctx, issuer)
}
