package serve

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxCached is how many decisions are remembered at most, in two generations.
const maxCached = 20_000

// cache remembers decisions. What several ask at the same time is decided once.
type cache struct {
	mu       sync.Mutex // owns the maps, not what they hold
	new, old map[string]*decided
}

// decided is a decision, or one being made: it is there when done is closed.
type decided struct {
	done chan struct{}
	made
}

// made is what was decided, until when it counts, and its summary where one was
// signed.
type made struct {
	verdict *verdict.Verdict
	until   time.Time
	summary []byte
}

// get returns the decision of a key, and whether it was there. decide makes it
// with a context of its own, not ours, so that one who goes away takes nobody along.
func (c *cache) get(ctx context.Context, key string, now time.Time, decide func(context.Context) made) (m made, hit bool, err error) {
	d, mine := c.find(key, now)
	if mine {
		go func() {
			d.made = decide(ctx)
			if !keeps(d.verdict) {
				c.forget(key, d)
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

// find returns what is known of a key, or makes room for it.
func (c *cache) find(key string, now time.Time) (d *decided, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, generation := range []map[string]*decided{c.new, c.old} {
		d := generation[key]
		if d == nil {
			continue
		}
		select {
		case <-d.done:
			if now.Before(d.until) {
				return d, false
			}
		default:
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

func (c *cache) forget(key string, d *decided) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, generation := range []map[string]*decided{c.new, c.old} {
		if generation[key] == d {
			delete(generation, key)
		}
	}
}

// keeps reports whether a decision is one: yes or no.
func keeps(v *verdict.Verdict) bool {
	o := v.Outcome()
	return o == verdict.Accepted || o == verdict.Refused
}
