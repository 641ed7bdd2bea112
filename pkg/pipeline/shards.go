package pipeline

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/waybill-release/waybill/pkg/lease"
	"github.com/waybill-release/waybill/pkg/promote"
	"github.com/waybill-release/waybill/pkg/routes"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Shared is what workers on one plan share, besides the plan.
type Shared struct {
	// Results is the place of the results of all plans; empty writes none.
	Results string
	Exclusion
}

// Exclusion keeps others out while something is done.
type Exclusion struct {
	// Lease is the place of leases; empty claims none.
	Lease string
	// Term is how long a lease lasts that is not renewed.
	Term time.Duration
}

// leaseName is the object that keeps others out: of the whole, or of the same
// shard of any plan.
func leaseName(s promote.Shard) string {
	if s.Of <= 1 {
		return "promotion.lease.json"
	}
	return fmt.Sprintf("promotion-%03d-of-%03d.lease.json", s.Index, s.Of)
}

// PromoteShard applies a plan of images, as one of several workers: it holds
// the lease of its shard while it works, and writes its results in the end. A
// run that does not come to results, because it was ended, writes none.
func (p *Pipeline) PromoteShard(ctx context.Context, plan routes.Plan, how Promotion, with Shared) (promote.Applied, error) {
	p.Report(ctx, "promote by the plan %s", plan.Digest())
	var held *lease.Lease
	if with.Lease != "" {
		var err error
		if held, err = claim(ctx, p.World, with.Exclusion, leaseName(how.Shard)); err != nil {
			return promote.Applied{}, err
		}
		defer func() { _ = held.Release(ctx) }() // else it runs out
		how.Exclusive = held.Held
	}
	done, err := imageRun{p.job}.promote(ctx, plan, how)
	if err != nil {
		return promote.Applied{}, err
	}
	if held != nil { // a note of this run, and none of its results
		defer done.Verdict.Note("it was done with the lease %s at %s, number %d", leaseName(how.Shard), with.Lease, held.Number())
	}
	if err := context.Cause(ctx); err != nil || with.Results == "" {
		return done, err
	}
	at := promote.ResultsPlace(with.Results, plan.Digest())
	to, err := p.OpenWriter(at)
	if err != nil {
		return promote.Applied{}, err
	}
	name, err := done.WriteResults(ctx, to, plan, how.Shard)
	if err != nil {
		return promote.Applied{}, fmt.Errorf("writing the results: %w", err)
	}
	p.Report(ctx, "the results are in %s%s", at, name)
	return done, nil
}

func claim(ctx context.Context, p World, with Exclusion, name string) (*lease.Lease, error) {
	at, err := p.openPlace(with.Lease)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, with.Lease, err)
	}
	to, err := p.OpenWriter(with.Lease)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return lease.Claim(ctx, lease.Place{Place: at, Writer: to}, name, lease.Config{
		Holder: fmt.Sprintf("%s %d %s", host, os.Getpid(), rand.Text()[:8]), Term: with.Term, Clock: p.Clock,
	})
}
