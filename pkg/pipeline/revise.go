package pipeline

import (
	"context"
	"errors"
	"io/fs"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/seal"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// DraftAmendment drafts the next revision of the sealed release, with the
// evidence that is there now. Nothing is signed, and no token is needed.
func (p *Pipeline) DraftAmendment(ctx context.Context, reason string) (release.Manifest, error) {
	req, err := p.sealed(ctx)
	if err != nil {
		return release.Manifest{}, err
	}
	return seal.Amend(ctx, req, reason)
}

// DraftWithdrawal drafts the revision that says that the release must no
// longer be used. Nothing is signed, and no token is needed.
func (p *Pipeline) DraftWithdrawal(ctx context.Context, w release.Withdrawal) (release.Manifest, error) {
	req, err := p.sealed(ctx)
	if err != nil {
		return release.Manifest{}, err
	}
	return seal.Withdraw(ctx, req, w)
}

// Revise signs a drafted revision as the release identity and puts it in the
// place of the one before. It is public once it is promoted.
func (p *Pipeline) Revise(ctx context.Context, next release.Manifest) error {
	return p.sealing(ctx, verbOf(next), func(ctx context.Context, req seal.Request, _ *Summary) error { return seal.Revise(ctx, req, next) })
}

func verbOf(next release.Manifest) string {
	if next.Withdrawn != nil {
		return actWithdraw
	}
	return actAmend
}

// ForecastRevision looks ahead at signing a drafted revision: as whom, and
// with which services. An empty stage is the state directory.
func (p *Pipeline) ForecastRevision(ctx context.Context, next release.Manifest, at profile.Stage) (Forecast, error) {
	f := p.forecast(plan.Plan{Name: next.Name, Version: next.Version}, next.Source.Commit)
	if at != "" {
		uri, err := p.Profile.Files(at, p.Version)
		if err != nil {
			return Forecast{}, err
		}
		f.State, f.Asked = "", []string{uri}
	}
	return (&view{p: p}).fill(ctx, f, []string{verbOf(next)})
}

// sealed is a request to look at a sealed release: it has no signer.
func (p *Pipeline) sealed(ctx context.Context) (seal.Request, error) {
	planned, w, err := p.resume(ctx)
	if err != nil {
		return seal.Request{}, err
	}
	return p.request(planned, w), nil
}

// replaces is the digest of the manifest at a destination that the manifest of
// a promotion may replace: the release identity signed it, and ours is a later
// revision of it. It is zero where there is none, or the very same.
func (p *Pipeline) replaces(ctx context.Context, next release.Manifest, bundle []byte, at store.Place) (digest.Digest, error) {
	before, raw, err := p.manifest(ctx, at)
	if err == nil {
		there := digest.Of(digest.SHA256, raw)
		if there.Equal(digest.Of(digest.SHA256, bundle)) {
			return digest.Digest{}, nil
		}
		return there, next.Follows(before, there)
	}
	none := errors.Is(err, store.ErrNotFound) || errors.Is(err, fs.ErrNotExist) // of a directory that is yet to be made
	if !none && verdict.OutcomeOf(err) == verdict.Unavailable {
		return digest.Digest{}, err
	}
	// There is none, or it is not ours: that conflicts, and stays.
	return digest.Digest{}, nil
}
