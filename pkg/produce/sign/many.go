package sign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/estimate"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// defaultWorkers is how many signatures are made at a time: a log takes a second for
// each, and accepts many in that second. The transport allows as many requests
// to wait for a log, once it has answered some: see [transport.Batched].
const defaultWorkers = 256

// reportEvery is how often progress is reported.
const reportEvery = 10 * time.Second

// mostFailures is how many orders may fail individually before the rest is
// not tried.
const mostFailures = 10

// Order is one thing to sign: a statement, or bytes by their digests.
type Order struct {
	Statement intoto.Statement
	Bytes     digest.Set
	// Legacy asks for the form that predates bundles, logged in Rekor v1.
	Legacy bool
}

// Each signs many things, some at a time, and returns each bundle as soon as
// it is verified: keep is called once for each order, with its index, one
// call at a time. Orders of equal content share one signature. A refused
// order does not stop the others; a failure that affects all orders, like an
// unreachable service, does. All failures are in a [*FailedError]; what was
// signed and not returned is in [Work.Kept].
func (s *Signer) Each(ctx context.Context, orders []Order, keep func(i int, bundle []byte, e verify.Evidence) error) error {
	if len(orders) == 0 {
		return verdict.Refuse(verdict.NoArtifact, "signature", "nothing to sign")
	}
	contents, places, err := s.contents(orders)
	if err != nil {
		return err
	}
	workers := s.config.Work.Workers
	if workers < 1 {
		workers = defaultWorkers
	}
	within, stop := context.WithCancel(ctx)
	defer stop()
	run := &progress{signer: s, all: len(orders), began: s.config.Clock(), stop: stop}
	run.pace = estimate.From(run.began)
	run.watch(within)
	var group errgroup.Group
	group.SetLimit(workers)
	for _, c := range contents {
		if within.Err() != nil {
			break
		}
		group.Go(func() error {
			own := places[c.name("")]
			bundle, e, err := s.make(within, c)
			if err != nil {
				run.fail(within, own, err)
				return nil
			}
			run.handOver(within, own, func(i int) error { return keep(i, bundle, e) })
			return nil
		})
	}
	_ = group.Wait() // failures are in run
	return run.end(ctx)
}

// contents are the distinct contents of orders, with the indexes of their
// orders. All orders are checked before any service is contacted.
func (s *Signer) contents(orders []Order) (list []content, places map[string][]int, err error) {
	places = map[string][]int{}
	var all []error
	for i, o := range orders {
		c, err := s.content(o)
		if err != nil {
			all = append(all, err)
			continue
		}
		name := c.name("")
		if places[name] == nil {
			list = append(list, c)
		}
		places[name] = append(places[name], i)
	}
	return list, places, errors.Join(all...)
}

// progress reports progress, and collects failures.
type progress struct {
	signer *Signer
	all    int
	began  time.Time
	stop   context.CancelFunc

	mu       sync.Mutex // guards the fields below, and serializes calls of keep
	done     int
	pace     estimate.Pace
	reported time.Time
	failures []Failure
	ended    bool // keep failed in a way that ends everything, and is not called again
}

// handOver returns a bundle for each of its orders.
func (p *progress) handOver(ctx context.Context, places []int, keep func(int) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range places {
		if p.ended {
			return
		}
		if err := keep(i); err != nil {
			p.ended = verdict.OutcomeOf(err) != verdict.Refused
			p.failed(ctx, []int{i}, err)
			continue
		}
		p.done++
	}
	p.watch(ctx)
}

// fail records that the orders with these indexes are not signed.
func (p *progress) fail(ctx context.Context, places []int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed(ctx, places, err)
}

// failed stops everything if the failure does not affect its orders only.
// Later failures are consequences. The caller has locked the mutex.
func (p *progress) failed(ctx context.Context, places []int, err error) {
	if ctx.Err() != nil {
		return
	}
	for _, i := range places {
		p.failures = append(p.failures, Failure{Order: i, Err: err})
	}
	if _, is := errors.AsType[*sharedError](err); verdict.OutcomeOf(err) != verdict.Refused || is || len(p.failures) >= mostFailures {
		p.stop()
	}
}

// watch shows the progress, or reports it at intervals. The caller has locked
// the mutex, or is the only goroutine.
func (p *progress) watch(ctx context.Context) {
	if watch := p.signer.config.Work.Watch; watch != nil {
		watch(p.done, p.all)
		return
	}
	now := p.signer.config.Clock()
	took := now.Sub(p.began)
	p.pace.Did(now, p.done, 0)
	if p.done > 0 && (now.Sub(p.reported) >= reportEvery && took >= reportEvery || p.done == p.all) {
		p.reported = now
		left := p.pace.Left(now, p.all-p.done, 0)
		p.signer.config.Work.Report(ctx, "signed %d of %d in %s, %s left", p.done, p.all, took.Round(time.Second), left.Round(time.Second))
	}
}

func (p *progress) end(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ctx.Err() != nil && p.done < p.all:
		return fmt.Errorf("signing, with %d of %d done: %w", p.done, p.all, context.Cause(ctx))
	case len(p.failures) > 0:
		slices.SortFunc(p.failures, func(a, b Failure) int { return a.Order - b.Order })
		return &FailedError{Done: p.done, All: p.all, Failures: p.failures}
	}
	return nil
}

// Failure is one order that was not signed, by its index.
type Failure struct {
	Order int
	Err   error
}

// FailedError reports every order that failed. Orders that are neither done
// nor listed were not tried.
type FailedError struct {
	Done, All int
	Failures  []Failure // by index; at least one
}

// Error says how many are done, and why the first failed.
func (e *FailedError) Error() string {
	text := fmt.Sprintf("signing, with %d of %d done: %v", e.Done, e.All, e.Failures[0].Err)
	if more := len(e.Failures) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// Unwrap returns why each failed.
func (e *FailedError) Unwrap() []error {
	return slice.Map(e.Failures, func(f Failure) error { return f.Err })
}

// sharedError is a failure that would affect every other order, too.
type sharedError struct{ err error }

// Error is that of the cause.
func (e *sharedError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *sharedError) Unwrap() error { return e.err }
