package sign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// defaultWorkers is how many signatures are under way at a time: a log takes a
// second for each, and takes many in that second.
const defaultWorkers = 32

// every is how often progress is told.
const every = 5 * time.Second

// Order is one thing to sign: a statement, or bytes by their digests.
type Order struct {
	Statement intoto.Statement
	Bytes     digest.Set
}

// Each signs many things, some at a time, and hands each bundle over as soon
// as it has been verified: keep is called once for each order, by its place,
// one call at a time. Orders of equal content share one signature. The first
// error ends it; what was kept until then stays, and what was signed and not
// handed over is in [Work.Kept].
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
	run := &progress{signer: s, all: len(orders), began: s.config.Clock()}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, c := range contents {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			bundle, e, err := s.make(ctx, c)
			if err != nil {
				return err
			}
			return run.handOver(places[c.name("")], func(i int) error { return keep(i, bundle, e) })
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("signing, with %d of %d done: %w", run.count(), len(orders), err)
	}
	if run.count() < len(orders) {
		return fmt.Errorf("signing, with %d of %d done: %w", run.count(), len(orders), context.Cause(ctx))
	}
	return nil
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

// progress tells how far it is.
type progress struct {
	signer *Signer
	all    int
	began  time.Time

	mu     sync.Mutex // guards what follows, and keeps one call to keep at a time
	done   int
	told   time.Time
	failed error // of keep, which is not called again
}

func (p *progress) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// handOver gives a bundle to each of the places that it is for.
func (p *progress) handOver(places []int, keep func(int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range places {
		if p.failed == nil {
			p.failed = keep(i)
		}
		if p.failed != nil {
			return p.failed
		}
		p.done++
	}
	now := p.signer.config.Clock()
	took := now.Sub(p.began)
	if now.Sub(p.told) >= every && took >= every || p.done == p.all {
		p.told = now
		left := took / time.Duration(p.done) * time.Duration(p.all-p.done)
		p.signer.config.Work.Report("signed %d of %d in %s, %s left", p.done, p.all, took.Round(time.Second), left.Round(time.Second))
	}
	return nil
}
