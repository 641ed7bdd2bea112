package coverage

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
)

// Provenance is the audit of a requirement on images. by has the policy as written; a
// zero Now means the time of each pass.
func Provenance(public Registries, by gate.PolicyRequest) reconcile.Sweep {
	return images{public, by}
}

type images struct {
	public Registries
	by     gate.PolicyRequest
}

// Sweep implements [reconcile.Sweep]. Each pass judges all images again, to notice
// those that were fixed.
func (i images) Sweep(ctx context.Context, w reconcile.Work) (feature.Outcome, error) {
	by, err := atPassTime(i.by)
	if err != nil {
		return feature.Outcome{}, err
	}
	public := i.public.open()
	return Audit{Public: public, Judge: judge{public, by}}.Sweep(ctx, w)
}

// atPassTime is the request at the time of a pass. A policy that has expired is an error:
// it refuses everything, which says nothing about an image.
func atPassTime(by gate.PolicyRequest) (gate.PolicyRequest, error) {
	if by.Now.IsZero() {
		by.Now = time.Now()
	}
	return by, errors.Join(by.Policy.Life(by.Now), by.Policy.Root(by.Verifier.Root().IsLab(), by.Verifier.Root().Date(), by.Now))
}
