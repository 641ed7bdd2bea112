package cleanup

import (
	"context"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// VSAsInForce counts our summaries that may still be relied on: those of a verifier
// that the policy names under summaries, and those that have not expired. They are not
// removed: people let them expire, delete them, or publish a policy that accepts none.
func (s *Sweeps) VSAsInForce() reconcile.Counter {
	return counter{Sweeps: s, visit: s.summaries(true)}
}

// VSAsLeft counts our summaries that are still attached but not relied on.
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
				continue // malformed, so it cannot be relied on
			}
			_, named := asked[said.Verifier.ID]
			fresh := s.fresh(said, now)
			if (named || fresh) != inForce {
				continue
			}
			why := "expired, and not accepted by the policy"
			switch {
			case named:
				why = "the policy accepts summaries of " + said.Verifier.ID
			case fresh:
				why = "valid until " + said.Verified.Add(s.c.Validity).Format(time.RFC3339)
			}
			t.add("a summary of %s by %s: %s", p.named(image.Digest), policy.Who(f.evidence), why)
		}
		return nil
	}
}

// fresh reports whether a summary has not expired. One without a time of verification
// never expires.
func (s *Sweeps) fresh(said vsa.Summary, now time.Time) bool {
	return said.Verified.IsZero() || now.Sub(said.Verified) <= s.c.Validity
}
