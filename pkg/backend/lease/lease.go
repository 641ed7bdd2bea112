// Package lease lets one of several processes act, for a limited time.
//
// A lease is an object in a place that supports conditional writes: a directory
// or a bucket. It names its holder, a number that grows with each claim, and
// its expiry. The holder renews it; another process may take over an expired
// lease, with the next number. Each write succeeds only if the object still has
// the bytes that were read, so one of several claimants gets it.
//
//	held, err := lease.Claim(ctx, lease.Place{Place: at, Writer: at}, "promotion.lease.json", lease.Config{Holder: me})
//	…
//	defer held.Release(ctx)
//	…
//	err = held.Held(ctx) // before each act that only one may do
//
// A [Store], such as a Kubernetes cluster, has leases of its own kind, and no
// clock of another machine counts there: a claimant watches the lease for as long
// as it lasts, and takes it if it was not renewed.
//
// A directory must exist: a missing one may be a share that is not mounted, and
// a lease written there would exclude no other process.
//
// The number is a fencing token: a process that was suspended for longer than
// its term calls [Lease.Held] and learns of a higher number. Registries do not
// check these numbers, so a request prepared before the suspension and sent
// after it still gets through. That gap is one request wide: the process must
// be suspended between the return of Held and the request.
//
// Clocks of different machines may differ by a quarter of the term: a holder
// stops a quarter before the expiry, and others wait until a quarter after it.
//
// Other projects should not import this package: it changes without notice.
package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Term is how long a lease lasts without renewal, unless a [Config] says
// otherwise.
const Term = 2 * time.Minute

// attempts is how often a write is tried again after another process wrote
// first.
const attempts = 4

// releaseTimeout bounds [Lease.Release]: an unreleased lease expires anyway.
const releaseTimeout = 10 * time.Second

// Place is where leases are read and written.
type Place struct {
	store.Place
	store.Writer
}

// Config says who claims a lease and for how long.
type Config struct {
	// Holder identifies the claimant to others who find the lease taken. No two
	// processes may share one.
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
	in   Store
	name string
	c    Config
	stop context.CancelFunc

	mu    sync.Mutex // guards the fields below; held during a renewal
	claim Claimed
	since time.Time // our clock before the claim was written
	lost  error
}

// Claim takes a lease that is free or expired. A lease held by another process
// is refused as BUSY, which names the holder and the expiry. Renewals use ctx,
// too.
func Claim(ctx context.Context, at Place, name string, c Config) (*Lease, error) {
	c.Term = cmp.Or(c.Term, Term)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	in, own := at.Place.(Store)
	if !own {
		in = objects{at}
	}
	if _, tied := at.Writer.(store.Replacer); !tied && !own || c.Holder == "" || c.Term < 0 {
		return nil, verdict.Refuse(verdict.Usage, at.URI(), "a lease needs a holder, a term, and a place that supports conditional writes")
	}
	l := &Lease{at: at, in: in, name: name, c: c}
	err := l.claimFree(ctx)
	if err != nil {
		return nil, err
	}
	ctx, l.stop = context.WithCancel(ctx)
	go l.renewPeriodically(ctx)
	return l, nil
}

// claimFree writes our claim over an expired or missing one.
func (l *Lease) claimFree(ctx context.Context) (err error) {
	_, watches := l.at.Place.(Store)
	watched := "" // the version that this process waits for
	for tries := 0; tries < attempts; {
		old, looked := l.in.ReadClaim(ctx, l.name)
		if looked != nil {
			return looked
		}
		now := l.c.Clock()
		if !old.isFree(now, l.c.Term/4) {
			if !watches || watched != "" && watched != old.Version { // a renewed one has a live holder
				return verdict.Refuse(verdict.Busy, l.subject(), "held by %q until %s (number %d)", old.Holder, old.Expires.Format(time.RFC3339), old.Number).
					Advise("nothing was changed; wait until the other run ends or its lease expires")
			}
			watched = old.Version
			if err := transport.Sleep(ctx, l.c.Term/16); err != nil {
				return err
			}
			continue
		}
		tries++
		next := Claimed{Holder: l.c.Holder, Number: old.Number + 1, Expires: now.Add(l.c.Term).UTC(), Version: old.Version}
		if err = l.write(ctx, next); err == nil {
			l.since = now
			return nil
		}
		if !isConflict(err) {
			return err
		}
	}
	return &verdict.UnavailableError{Place: l.at.URI(), Op: "claiming " + l.name, Err: fmt.Errorf("other processes keep changing the lease: %w", err)}
}

// isConflict reports whether a write failed because another process wrote
// first.
func isConflict(err error) bool {
	return errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrChanged) || errors.Is(err, store.ErrNotFound)
}

// subject names the object in refusals.
func (l *Lease) subject() string { return l.name + " at " + l.at.URI() }

// write replaces the claim that was read.
func (l *Lease) write(ctx context.Context, c Claimed) error {
	version, err := l.in.WriteClaim(ctx, l.name, c, l.c.Term)
	if err == nil {
		c.Version = version
		l.claim = c
	}
	return err
}

// Number is the number of the claim: one more than the previous holder's.
func (l *Lease) Number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claim.Number
}

// Held returns nil if the lease is still ours with at least a quarter of its
// term left. It costs nothing while the last renewal is fresh; otherwise it
// renews. Once another process took the lease, every call returns BUSY.
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
		return nil // the renewal failed, but the lease has not expired yet
	case err == nil:
		err = errors.New("the renewal took too long")
	}
	return &verdict.UnavailableError{Place: l.at.URI(), Op: "holding " + l.name, Err: err}
}

// left is how long the lease lasts, by the wall clock or by the monotonic
// clock, whichever says less: the wall clock can be set back, and the monotonic
// clock can stop during a suspension.
func (l *Lease) left() time.Duration {
	now := l.c.Clock()
	return min(l.claim.Expires.Sub(now.Round(0)), l.c.Term-now.Sub(l.since))
}

// renew extends our own claim. An expired claim that is still in place is
// renewed as well: then no other process held the lease in between.
func (l *Lease) renew(ctx context.Context) error {
	for range attempts {
		now, next := l.c.Clock(), l.claim
		next.Expires = now.Add(l.c.Term).UTC()
		err := l.write(ctx, next)
		if err == nil {
			l.since = now
			return nil
		}
		if !isConflict(err) {
			return err
		}
		there, err := l.in.ReadClaim(ctx, l.name)
		if err != nil {
			return err
		}
		if there.Holder != l.c.Holder || there.Number != l.claim.Number {
			l.lost = l.lostTo(there)
			return l.lost
		}
		l.claim = there // an earlier renewal of ours that had returned an error
	}
	return errors.New("the lease keeps changing")
}

// lostTo says why a lease is lost.
func (l *Lease) lostTo(by Claimed) error {
	if by.Number == 0 {
		return verdict.Refuse(verdict.Busy, l.subject(), "the lease, number %d, was removed while we held it", l.claim.Number).
			Advise("find out who removed the object, then run the command again")
	}
	return verdict.Refuse(verdict.Busy, l.subject(), "our lease, number %d, was not renewed in time; number %d was claimed since", l.claim.Number, by.Number).
		Advise("nothing was written after that; run the command again to complete the work that the other run leaves")
}

// renewPeriodically is the one goroutine of a lease. It guards no fields, and
// ends with the context.
func (l *Lease) renewPeriodically(ctx context.Context) {
	tick := time.NewTicker(max(l.c.Term/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.mu.Lock()
			if l.lost == nil && ctx.Err() == nil {
				_ = l.renew(ctx) // the next Held reports the error
			}
			l.mu.Unlock()
		}
	}
}

// Release frees the lease and keeps its number for the next holder, even if ctx
// has ended. A lost lease is not touched.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return nil
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer end()
	free := Claimed{Number: l.claim.Number, Expires: l.c.Clock().UTC(), Version: l.claim.Version}
	err := l.write(ctx, free)
	l.lost = verdict.Refuse(verdict.Busy, l.subject(), "the lease was released")
	if isConflict(err) {
		return nil
	}
	return err
}
