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
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// defaultWorkers is how many signatures are under way at a time: a log takes a
// second for each, and takes many in that second. It is as many as the
// transport lets wait for one host.
const defaultWorkers = 64

// every is how often progress is told.
const every = 10 * time.Second

// mostFailures is how many orders may fail, each by itself, before that is no
// longer about single ones.
const mostFailures = 10

// Order is one thing to sign: a statement, or bytes by their digests.
type Order struct {
	Statement intoto.Statement
	Bytes     digest.Set
	// Legacy asks for the form from before bundles, logged in version 1.
	Legacy bool
}

// Each signs many things, some at a time, and hands each bundle over as soon
// as it has been verified: keep is called once for each order, by its place,
// one call at a time. Orders of equal content share one signature. An order
// that is refused does not keep the others from being signed; what no order
// could get, like a service that is away, ends it. All that failed is in a
// [*FailedError]; what was signed and not handed over is in [Work.Kept].
func (s *Signer) Each(ctx context.Context, orders []Order, keep func(i int, bundle []byte, e verify.Evidence) error) error {
	if len(orders) == 0 {
		return verdict.Refuse(verdict.NoArtifact, "signature", "there is nothing to sign")
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
	_ = group.Wait() // whatever failed is in run
	return run.end(ctx)
}

// contents are the distinct contents of orders, and whose they are. Nobody is
// asked for anything before all of them are such that they may be signed.
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

// progress tells how far it is, and gathers what fails.
type progress struct {
	signer *Signer
	all    int
	began  time.Time
	stop   context.CancelFunc

	mu       sync.Mutex // guards what follows, and keeps one call to keep at a time
	done     int
	pace     estimate.Pace
	told     time.Time
	failures []Failure
	over     bool // keep failed in a way that ends all, and is not called again
}

// handOver gives a bundle to each of the places that it is for.
func (p *progress) handOver(ctx context.Context, places []int, keep func(int) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range places {
		if p.over {
			return
		}
		if err := keep(i); err != nil {
			p.over = verdict.OutcomeOf(err) != verdict.Refused
			p.failed(ctx, []int{i}, err)
			continue
		}
		p.done++
	}
	p.watch(ctx)
}

// fail notes that the orders at some places are not signed.
func (p *progress) fail(ctx context.Context, places []int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed(ctx, places, err)
}

// failed ends all where the failure is not of its orders alone. What fails
// after that only fails because of it. The caller holds the mutex.
func (p *progress) failed(ctx context.Context, places []int, err error) {
	if ctx.Err() != nil {
		return
	}
	for _, i := range places {
		p.failures = append(p.failures, Failure{Order: i, Err: err})
	}
	var shared *sharedError
	if verdict.OutcomeOf(err) != verdict.Refused || errors.As(err, &shared) || len(p.failures) >= mostFailures {
		p.stop()
	}
}

// watch shows how far it is, or tells it now and then. The caller holds the
// mutex, or is alone.
func (p *progress) watch(ctx context.Context) {
	if watch := p.signer.config.Work.Watch; watch != nil {
		watch(p.done, p.all)
		return
	}
	now := p.signer.config.Clock()
	took := now.Sub(p.began)
	p.pace.Did(now, p.done)
	if p.done > 0 && (now.Sub(p.told) >= every && took >= every || p.done == p.all) {
		p.told = now
		left := p.pace.Left(now, p.all-p.done)
		p.signer.config.Work.Report(ctx, "signed %d of %d in %s, %s left", p.done, p.all, took.Round(time.Second), left.Round(time.Second))
	}
}

// end is how it ended.
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
