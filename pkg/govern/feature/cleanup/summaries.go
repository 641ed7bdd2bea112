package cleanup

import (
	"context"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// VSAsInForce counts the summaries of ours that somebody may go by: those of a
// verifier that the policy names under summaries, and those that are not older
// than a summary may be. Nothing is removed: people let them grow old, delete
// them, or publish a policy that asks for none.
func (s *Sweeps) VSAsInForce() reconcile.Counter {
	return counter{Sweeps: s, visit: s.summaries(true)}
}

// VSAsLeft counts the summaries that are attached still and that nobody goes by.
func (s *Sweeps) VSAsLeft() reconcile.Counter {
	return counter{Sweeps: s, visit: s.summaries(false)}
}

func (s *Sweeps) summaries(inForce bool) visit {
	asked := policy.SummaryAges(s.c.Policy)
	return func(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
		now := s.c.Clock()
		found, err := p.bundles(ctx, image.Digest, vsa.PredicateType)
		if err != nil {
			return err
		}
		for _, f := range found {
			said, err := vsa.Parse(f.evidence.Statement())
			if err != nil {
				continue // nobody can go by it
			}
			_, named := asked[said.Verifier.ID]
			fresh := s.fresh(said, now)
			if (named || fresh) != inForce {
				continue
			}
			why := "nobody goes by it"
			switch {
			case named:
				why = "the policy takes the word of " + said.Verifier.ID
			case fresh:
				why = "it counts until " + said.Verified.Add(s.c.Validity).Format(time.RFC3339)
			}
			t.add("a summary of %s by %s: %s", p.named(image.Digest), policy.Who(f.evidence), why)
		}
		return nil
	}
}

// fresh reports whether a summary of which the policy says nothing may count.
// One that does not say when it was judged never grows old.
func (s *Sweeps) fresh(said vsa.Summary, now time.Time) bool {
	return said.Verified.IsZero() || now.Sub(said.Verified) <= s.c.Validity
}
