// Package lease lets one of several processes do something, for a time.
//
// A lease is an object in a place that can tie a write to what it replaces: a
// directory or a bucket. It names its holder, a number that grows with each
// claim, and when it runs out. Who has it renews it; who finds it run out takes
// it over, with the next number. Each write is tied to the bytes that were
// looked at, so of several that reach for it one gets it.
//
//	held, err := lease.Claim(ctx, lease.Place{Place: at, Writer: at}, "promotion.lease.json", lease.Config{Holder: me})
//	…
//	defer held.Release(ctx)
//	…
//	err = held.Held(ctx) // before each act that only one may do
//
// A directory must be there already: one that is not may be a share that is not
// mounted, and a lease in its place would keep nobody out.
//
// The number fences: whoever was stopped for longer than its term, and wakes,
// asks [Lease.Held] and learns that there is a higher one. A registry knows no
// numbers and refuses nothing by them, so what was asked for before the stop,
// and is sent after it, still gets through. That gap is as wide as one request.
// It takes a stop between the answer of Held and the request to fall into it.
//
// Clocks of different machines may differ by a quarter of the term: a holder
// stops a quarter before the end, and nobody takes over until a quarter after.
package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Term is how long a lease lasts that is not renewed, unless a [Config] says
// otherwise.
const Term = 2 * time.Minute

// attempts is how often a lease is looked at again, when another was quicker.
const attempts = 4

// parting is how long giving a lease back may take: it runs out by itself.
const parting = 10 * time.Second

// Place is where leases lie, to be read and written.
type Place struct {
	store.Place
	store.Writer
}

// Config says who claims a lease and for how long.
type Config struct {
	// Holder names who claims it, for whoever finds it taken. No two processes
	// may have the same.
	Holder string
	// Term is how long it lasts without being renewed. Default [Term].
	Term time.Duration
	// Clock is the time. Default [time.Now].
	Clock func() time.Time
}

// Lease is a lease that was claimed. It is safe for concurrent use, and renews
// itself until it is released.
type Lease struct {
	at   Place
	name string
	c    Config
	stop context.CancelFunc

	mu    sync.Mutex // owns the rest, and is held while the lease is renewed
	claim claim
	raw   []byte    // the claim, as it lies there
	since time.Time // the clock, before the claim was written
	lost  error
}

// Claim takes a lease that nobody has, or that ran out. One that another has is
// refused as BUSY, which names the holder and the end. The context is that of
// the renewals, too.
func Claim(ctx context.Context, at Place, name string, c Config) (*Lease, error) {
	if c.Term == 0 {
		c.Term = Term
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if _, tied := at.Writer.(store.Replacer); !tied || c.Holder == "" || c.Term < 0 {
		return nil, verdict.Refuse(verdict.Usage, at.URI(), "a lease needs a holder, a term, and a place that ties a write to what it replaces")
	}
	l := &Lease{at: at, name: name, c: c}
	err := l.take(ctx)
	if err != nil {
		return nil, err
	}
	ctx, l.stop = context.WithCancel(ctx)
	go l.renewNowAndThen(ctx)
	return l, nil
}

// take writes the claim, over one that ran out or where there is none.
func (l *Lease) take(ctx context.Context) (err error) {
	for range attempts {
		old, raw, looked := l.look(ctx)
		if looked != nil {
			return looked
		}
		now := l.c.Clock()
		if !old.isFree(now, l.c.Term/4) {
			return l.busy(old)
		}
		next := claim{Schema: schema, Holder: l.c.Holder, Number: old.Number + 1, Expires: now.Add(l.c.Term).UTC()}
		if err = l.write(ctx, raw, next); err == nil {
			l.since = now
			return nil
		}
		if !isOthers(err) {
			return err
		}
	}
	return &verdict.UnavailableError{Place: l.at.URI(), Op: "claiming " + l.name, Err: fmt.Errorf("others write it without a pause: %w", err)}
}

// isOthers reports whether a write failed because another came before.
func isOthers(err error) bool {
	return errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrChanged) || errors.Is(err, store.ErrNotFound)
}

func (l *Lease) busy(by claim) error {
	return verdict.Refuse(verdict.Busy, l.where(), "%q has the lease, number %d, until %s", by.Holder, by.Number, by.Expires.Format(time.RFC3339)).
		Advise("nothing was done without it; wait for the other run, or until its lease has run out")
}

// where names the object.
func (l *Lease) where() string { return l.name + " at " + l.at.URI() }

// look reads what lies there; nothing is the zero claim.
func (l *Lease) look(ctx context.Context) (claim, []byte, error) {
	raw, err := store.Read(ctx, l.at, l.name, maxClaim)
	if errors.Is(err, store.ErrNotFound) {
		return claim{}, nil, nil
	}
	if err != nil {
		return claim{}, nil, err
	}
	c, err := parse(raw)
	if err != nil {
		return claim{}, nil, verdict.Wrap(verdict.ConfigParse, l.where(), err).
			Advise("look who wrote it; if it is no lease in use, remove it")
	}
	return c, raw, nil
}

// write puts a claim in the place of the bytes that were looked at.
func (l *Lease) write(ctx context.Context, old []byte, c claim) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if old == nil {
		err = l.at.Put(ctx, l.name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{IfAbsent: true, MediaType: mediaType})
	} else {
		err = store.Replace(ctx, l.at.Place, l.at.Writer, l.name, store.Replacement{Old: digest.Of(digest.SHA256, old), New: raw, MediaType: mediaType})
	}
	if err == nil {
		l.claim, l.raw = c, raw
	}
	return err
}

// Number is the number of the claim: one more than that of the holder before.
func (l *Lease) Number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claim.Number
}

// Held answers nil if the lease is still ours, with at least a quarter of its
// term left. It costs nothing as long as the last renewal is fresh; else it
// renews. A lease that another took is refused as BUSY, from then on.
func (l *Lease) Held(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	if l.left() > l.c.Term*3/4 {
		return nil
	}
	err := l.renew(ctx)
	switch {
	case l.lost != nil:
		return l.lost
	case l.left() > l.c.Term/4:
		return nil // what was not renewed now has not run out yet
	case err == nil:
		err = errors.New("renewing it took too long")
	}
	return &verdict.UnavailableError{Place: l.at.URI(), Op: "holding " + l.name, Err: err}
}

// left is how long the lease lasts yet, by the time of day and by the time that
// passed, whichever says less: either can be set back, or stand still.
func (l *Lease) left() time.Duration {
	now := l.c.Clock()
	return min(l.claim.Expires.Sub(now.Round(0)), l.c.Term-now.Sub(l.since))
}

// renew writes a later end over our own claim. One that ran out is renewed as
// well, if it still lies there: then nobody had it in between.
func (l *Lease) renew(ctx context.Context) error {
	for range attempts {
		now, next := l.c.Clock(), l.claim
		next.Expires = now.Add(l.c.Term).UTC()
		err := l.write(ctx, l.raw, next)
		if err == nil {
			l.since = now
			return nil
		}
		if !isOthers(err) {
			return err
		}
		there, raw, err := l.look(ctx)
		if err != nil {
			return err
		}
		if there.Holder != l.c.Holder || there.Number != l.claim.Number {
			l.lost = l.taken(there)
			return l.lost
		}
		l.claim, l.raw = there, raw // a renewal of ours that was said to have failed
	}
	return errors.New("it changes all the time")
}

// taken is why a lease is lost.
func (l *Lease) taken(by claim) error {
	if by.Number == 0 {
		return verdict.Refuse(verdict.Busy, l.where(), "somebody removed the lease, number %d, while we had it", l.claim.Number).
			Advise("find out who, and run it again")
	}
	return verdict.Refuse(verdict.Busy, l.where(), "we had the lease, number %d, and did not renew it in time; number %d was claimed since", l.claim.Number, by.Number).
		Advise("nothing was written after that; run it again, which does what the other run does not")
}

// renewNowAndThen is the one goroutine of a lease. It owns nothing, and ends
// with the context.
func (l *Lease) renewNowAndThen(ctx context.Context) {
	tick := time.NewTicker(max(l.c.Term/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.mu.Lock()
			if l.lost == nil && ctx.Err() == nil {
				_ = l.renew(ctx) // who asks Held is told
			}
			l.mu.Unlock()
		}
	}
}

// Release gives the lease back, and keeps its number for who claims it next. It
// does so although the context has ended. A lease that is lost is not touched.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return nil
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer end()
	free := claim{Schema: schema, Number: l.claim.Number, Expires: l.c.Clock().UTC()}
	err := l.write(ctx, l.raw, free)
	l.lost = verdict.Refuse(verdict.Busy, l.where(), "the lease was given back")
	if isOthers(err) {
		return nil
	}
	return err
}
