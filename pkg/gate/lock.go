package gate

import (
	"context"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkLock holds the published lock against the published release.yaml: what
// the release was made of is named by digest, all of it and nothing else.
func (s *sealed) checkLock(ctx context.Context, config plan.Config) error {
	if !config.Locked() {
		return nil
	}
	raw, err := s.listed(ctx, plan.LockName)
	if err != nil {
		return err
	}
	lock, err := plan.ParseLock(raw)
	if err != nil {
		return verdict.Refuse(verdict.ManifestParse, plan.LockName, "the published lock does not parse: %v", err)
	}
	return lock.Covers(config)
}
