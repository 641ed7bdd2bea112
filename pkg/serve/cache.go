package serve

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxCached is the maximum number of cached decisions, in two generations.
const maxCached = 20_000

// cache holds decisions. Concurrent questions with one key are decided once.
type cache struct {
	mu       sync.Mutex // guards the maps, not their values
	new, old map[string]*decided
}

// decided is a decision, complete once done is closed.
type decided struct {
	done chan struct{}
	made
}

func (d *decided) isDone() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// made is a decision, until when it is valid, and its summary if one was
// signed.
type made struct {
	verdict *verdict.Verdict
	until   time.Time
	summary []byte
}

// get returns the decision for a key, and whether it was cached. decide has its
// own context: a caller that gives up does not affect the others.
func (c *cache) get(ctx context.Context, key string, now time.Time, decide func(context.Context) made) (m made, hit bool, err error) {
	d, mine := c.find(key, now)
	if mine {
		go func() {
			d.made = decide(ctx)
			if o := d.verdict.Outcome(); o != verdict.Accepted && o != verdict.Refused { // it may change
				c.drop(key, d)
			}
			close(d.done)
		}()
	}
	select {
	case <-d.done:
		return d.made, !mine, nil
	case <-ctx.Done():
		return made{}, false, context.Cause(ctx)
	}
}

// find returns the entry for a key, or adds one.
func (c *cache) find(key string, now time.Time) (d *decided, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, generation := range []map[string]*decided{c.new, c.old} {
		if d := generation[key]; d != nil && (!d.isDone() || now.Before(d.until)) {
			return d, false
		}
	}
	if c.new == nil || len(c.new) >= maxCached/2 {
		c.old, c.new = c.new, map[string]*decided{}
	}
	d = &decided{done: make(chan struct{})}
	c.new[key] = d
	return d, true
}

// drop forgets the decision for a key: a complete one, or this one.
func (c *cache) drop(key string, also *decided) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, generation := range []map[string]*decided{c.new, c.old} {
		if d := generation[key]; d != nil && (d == also || d.isDone()) {
			delete(generation, key)
		}
	}
}
