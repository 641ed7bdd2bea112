package serve

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/caller"
)

// How long somebody is known by a token before its signature is checked again,
// and how many tokens are known at most, in two generations. Both are less than
// what an issuer's keys are kept for and what the book may hold.
const (
	knownFor = time.Minute
	maxKnown = 4096
)

// recognised are the tokens that were verified a moment ago: a caller shows the
// same one with each request. A token is known by the digest of every byte of
// it, until it expires, and by nobody but the basis that recognised it: after a
// reload every token is verified anew. What was refused is not kept.
type recognised struct {
	mu       sync.Mutex // owns the maps
	new, old map[[sha256.Size]byte]recognisedCaller
}

type recognisedCaller struct {
	who   caller.Principal
	until time.Time
}

// find returns who showed a token, if that is known at this time.
func (r *recognised) find(token string, now time.Time) (caller.Principal, bool) {
	key := sha256.Sum256([]byte(token))
	r.mu.Lock()
	defer r.mu.Unlock()
	one, is := r.new[key]
	if !is {
		one, is = r.old[key]
	}
	if !is || !now.Before(one.until) || now.Before(one.until.Add(-knownFor)) { // a clock that was set back begins anew
		return caller.Principal{}, false
	}
	return one.who, true
}

// keep remembers who showed a token that was verified at this time.
func (r *recognised) keep(token string, who caller.Principal, now time.Time) {
	until := now.Add(knownFor)
	if expires := who.Shown().Until; expires.Before(until) {
		until = expires
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.new == nil || len(r.new) >= maxKnown/2 {
		r.old, r.new = r.new, map[[sha256.Size]byte]recognisedCaller{}
	}
	r.new[sha256.Sum256([]byte(token))] = recognisedCaller{who, until}
}
