package serve

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/caller"
)

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
