package gate

import (
	"context"

	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// checkLock holds the published lock against the published release.yaml: what
// the release was made of is named by digest, all of it and nothing else.
func (d *decision) checkLock(ctx context.Context, config plan.Config) {
	if !config.Locked() {
		return
	}
	raw, err := d.listed(ctx, plan.LockName)
	if err != nil {
		d.weigh(d.Policy.Plan(), verdict.FindingOf(plan.LockName, err))
		return
	}
	lock, err := plan.ParseLock(raw)
	if err != nil {
		d.weigh(d.Policy.Plan(), verdict.Find(verdict.ManifestParse, plan.LockName, "the published lock does not parse: %v", err))
		return
	}
	if err := lock.Covers(config); err != nil {
		d.weigh(d.Policy.Plan(), verdict.FindingOf(plan.LockName, err))
	}
}
