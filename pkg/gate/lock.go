package gate

import (
	"context"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkLock compares the published lock with the published release.yaml: the
// lock must pin every input by digest, and no others.
func (s *sealed) checkLock(ctx context.Context, config plan.Config) error {
	if !config.Locked() {
		return nil
	}
	raw, err := s.readListed(ctx, plan.LockName)
	if err != nil {
		return err
	}
	lock, err := plan.ParseLock(raw)
	if err != nil {
		return verdict.Refuse(verdict.ManifestParse, plan.LockName, "the published file does not parse: %v", err)
	}
	return lock.Covers(config)
}
