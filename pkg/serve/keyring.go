package serve

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/verdict"
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

// How long a verified token is accepted without a new check of its signature,
// and how many are cached at most. Both are less than the
// lifetime of cached issuer keys and the size of the book.
const (
	knownFor = time.Minute
	maxKnown = 4096
)

// recognised caches verified tokens: a caller sends the same one with each
// request. A token is identified by the digest of all its bytes, until it
// expires, and only within its basis: after a reload every token is verified
// again. Rejected tokens are not cached.
type recognised struct {
	mu  sync.Mutex // guards all
	all map[[sha256.Size]byte]recognisedCaller
}

type recognisedCaller struct {
	who   caller.Principal
	until time.Time
}

// find returns the owner of a token that is cached and still valid.
func (r *recognised) find(token string, now time.Time) (caller.Principal, bool) {
	key := sha256.Sum256([]byte(token))
	r.mu.Lock()
	defer r.mu.Unlock()
	one, is := r.all[key]
	if !is || !now.Before(one.until) || now.Before(one.until.Add(-knownFor)) { // the clock was set back: start with an empty cache
		return caller.Principal{}, false
	}
	return one.who, true
}

// keep caches the owner of a verified token.
func (r *recognised) keep(token string, who caller.Principal, now time.Time) {
	until := now.Add(knownFor)
	if expires := who.Shown().Until; expires.Before(until) {
		until = expires
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= maxKnown {
		r.all = map[[sha256.Size]byte]recognisedCaller{}
	}
	r.all[sha256.Sum256([]byte(token))] = recognisedCaller{who, until}
}

// maxDocument bounds the discovery document of an issuer, and its keys.
const maxDocument = 1 << 20

// IssuerKeys returns a function that fetches the keys of an issuer through rt,
// by OpenID Connect Discovery 1.0. Only issuers of the book are contacted. The
// address of the keys comes from a document, so the rules for addresses that
// others name apply: it must not lead into our network, and redirects are not
// followed.
func IssuerKeys(rt http.RoundTripper) func(ctx context.Context, issuer string) (caller.Keys, error) {
	return func(ctx context.Context, issuer string) (caller.Keys, error) {
		home, err := url.Parse(issuer)
		if err != nil {
			return caller.Keys{}, verdict.Wrap(verdict.ConfigParse, "issuer", err)
		}
		within := transport.Within(rt, home)
		raw, err := document(ctx, within, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
		if err != nil {
			return caller.Keys{}, err
		}
		var said struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		if err := json.Unmarshal(raw, &said); err != nil || said.Issuer != issuer || said.Keys == "" {
			return caller.Keys{}, unavailable(issuer, fmt.Errorf("the discovery document names no keys, or another issuer"))
		}
		if raw, err = document(ctx, within, said.Keys); err != nil {
			return caller.Keys{}, err
		}
		keys, err := caller.ParseKeys(raw)
		if err != nil { // the owner of the token is not to blame for this
			return caller.Keys{}, unavailable(said.Keys, err)
		}
		return keys, nil
	}
}

func unavailable(place string, err error) error {
	return &verdict.UnavailableError{Place: place, Op: "asking for keys", Err: err}
}

// document reads one document of an issuer. Redirects are errors.
func document(ctx context.Context, rt http.RoundTripper, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, unavailable(address, err)
	}
	resp, err := rt.RoundTrip(req) // not through a client, which would follow redirects
	if err != nil {
		return nil, unavailable(address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, unavailable(address, fmt.Errorf("status %d", resp.StatusCode))
	}
	raw, err := readAll(resp.Body, maxDocument)
	if err != nil {
		return nil, unavailable(address, err)
	}
	return raw, nil
}
