package pipeline

import (
	"context"

	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/seal"
)

// Revision is the next revision of a sealed release, of the manifest in the
// state directory or of the one that lies at a stage. It is drafted by Amend or
// Withdraw, for which nothing is signed and no token is needed, and then signed.
type Revision struct {
	*job
	at profile.Stage
}

// Revise returns the next revision of the manifest that lies at a stage; an
// empty stage is the state directory. At a stage no state directory is needed.
func (p *Pipeline) Revise(at profile.Stage) Revision { return Revision{p.job, at} }

// Amend drafts the revision with the evidence that is there now. At a stage
// everything that the manifest lists must be accepted as it is.
func (r Revision) Amend(ctx context.Context, reason string) (release.Manifest, error) {
	if r.at != "" {
		return r.amendAt(ctx, reason)
	}
	here, err := built(ctx, r.job, facts{})
	if err != nil {
		return release.Manifest{}, err
	}
	return seal.Amend(ctx, r.request(here.plan, here.w), reason)
}

// Withdraw drafts the revision that says that the release must no longer be
// used. At a stage nothing else of the release need be there.
func (r Revision) Withdraw(ctx context.Context, w release.Withdrawal) (release.Manifest, error) {
	if r.at != "" {
		return r.withdrawAt(ctx, w)
	}
	here, err := built(ctx, r.job, facts{})
	if err != nil {
		return release.Manifest{}, err
	}
	return seal.Withdraw(ctx, r.request(here.plan, here.w), w)
}

// Sign signs a drafted revision as the release identity and puts it in the place
// of the one before. In the state directory it is public once it is promoted;
// at a stage it is put at the other stage too, where that has the same one.
func (r Revision) Sign(ctx context.Context, next release.Manifest) error {
	if r.at != "" {
		return r.signAt(ctx, next)
	}
	a := signsRevision(next)
	a.do = sealing(func(ctx context.Context, req seal.Request) (int, error) { return 0, seal.Revise(ctx, req, next) })
	_, err := runner{r.job}.perform(ctx, a, facts{})
	return err
}

// signsRevision is the act that signs a drafted revision.
func signsRevision(next release.Manifest) act {
	if next.Withdrawn != nil {
		return revision(actWithdraw, release.RunWithdraw)
	}
	return revision(actAmend, release.RunAmend)
}

// Forecast looks ahead at signing a drafted revision: as whom, and with which
// services.
func (r Revision) Forecast(ctx context.Context, next release.Manifest) (Forecast, error) {
	o := &outlook{job: r.job, plan: plan.Plan{Name: next.Name, Version: next.Version}}
	if r.at == "" {
		return o.fill(ctx, o.forecast(next.Source.Commit), signsRevision(next))
	}
	uri, err := r.Profile.Files(r.at, r.Version)
	if err != nil {
		return Forecast{}, err
	}
	return o.elsewhere(ctx, signsRevision(next), next.Source.Commit, uri)
}
