package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// stageWorkspace names the workspace as the start of a promotion.
const stageWorkspace = "workspace"

// PlanPromotion plans the promotion to a stage, without doing it. It fails if
// the gate refuses the release.
func (p *Pipeline) PlanPromotion(ctx context.Context, to profile.Stage) (promote.Plan, error) {
	m, bundle, _, err := publishing{p.job}.planned(ctx, p.from, to)
	if err != nil {
		return promote.Plan{}, err
	}
	return promote.Make(m, bundle), nil
}

// PlanRelease is [Pipeline.PlanPromotion] as a plan that can be saved, and
// applied later by [PromotePlanned].
func (p *Pipeline) PlanRelease(ctx context.Context, to profile.Stage) (promotionplan.Plan, error) {
	if p.Profile.Unsealed != nil && to == profile.Release {
		return planFiles(ctx, p)
	}
	m, bundle, from, err := publishing{p.job}.planned(ctx, p.from, to)
	if err != nil {
		return promotionplan.Plan{}, err
	}
	at, err := publishing{p.job}.planEnd(to)
	if err != nil {
		return promotionplan.Plan{}, err
	}
	return promotionplan.MakeRelease(m, bundle, from, at)
}

// planFiles plans the files of a release without a manifest: those of the place staging
// that the gate accepts.
func planFiles(ctx context.Context, p *Pipeline) (promotionplan.Plan, error) {
	from, err := p.filesAt(profile.Staging)
	to, failed := p.filesAt(profile.Release)
	if err := errors.Join(err, failed); err != nil {
		return promotionplan.Plan{}, err
	}
	ask := p.Gate.Release(p.Version, profile.Release, gate.Places{Files: from}, p.Clock())
	ask.Options.Scope.Only = policy.Files
	decided, err := p.Gate.Decide(ctx, ask)
	if err == nil {
		err = decided.Verdict.Err()
	}
	if err != nil {
		return promotionplan.Plan{}, err
	}
	all := promoterfile.FileManifest{Name: p.Version.String(), Source: promoterfile.Place{Name: slashed(from.URI())}, Destinations: []promoterfile.Place{{Name: slashed(to.URI())}}}
	sums := map[string]digest.Digest{}
	for _, sum := range decided.Sums() {
		sums[sum.Name] = sum.Digests.SHA256
	}
	for _, name := range slices.Sorted(slices.Values(decided.Kept())) {
		if sums[name].IsZero() { // evidence about a file
			raw, err := store.Read(ctx, from, name, verify.MaxBundle)
			if err != nil {
				return promotionplan.Plan{}, err
			}
			sums[name] = digest.Of(digest.SHA256, raw)
		}
		all.Files = append(all.Files, promoterfile.File{Name: name, Digest: sums[name]})
	}
	return promotionplan.MakeFiles([]promoterfile.FileManifest{all})
}

// planned is the manifest that would go to a stage, and where it comes from.
func (p publishing) planned(ctx context.Context, in facts, to profile.Stage) (manifest.Manifest, []byte, promotionplan.End, error) {
	if to == profile.Release {
		if _, err := accepted(ctx, p.job, in); err != nil {
			return manifest.Manifest{}, nil, promotionplan.End{}, err
		}
	}
	source, from, err := p.origin(to)
	if err != nil {
		return manifest.Manifest{}, nil, promotionplan.End{}, err
	}
	m, bundle, err := p.promotable(ctx, source)
	return m, bundle, from, err
}

// origin is where a promotion to a stage comes from.
func (p publishing) origin(to profile.Stage) (store.Place, promotionplan.End, error) {
	if to == profile.Staging {
		w, err := workspace.Open(p.State)
		if err != nil {
			return nil, promotionplan.End{}, err
		}
		files := w.Files().URI()
		images := strings.TrimSuffix(strings.TrimSuffix(files, "/"), "files") + "images"
		return w.Files(), promotionplan.End{Stage: stageWorkspace, Files: slashed(files), Images: images}, nil
	}
	staging, err := p.place(profile.Staging)
	if err != nil {
		return nil, promotionplan.End{}, err
	}
	end, err := p.planEnd(profile.Staging)
	return staging.files, end, err
}

// planEnd describes a stage as plans do.
func (p publishing) planEnd(s profile.Stage) (promotionplan.End, error) {
	at, err := p.place(s)
	if err != nil {
		return promotionplan.End{}, err
	}
	images, err := p.Profile.Images(s, p.Version)
	return promotionplan.End{Stage: string(s), Files: slashed(at.files.URI()), Images: strings.TrimSuffix(images, "/")}, err
}

func slashed(uri string) string { return strings.TrimSuffix(uri, "/") + "/" }

// PromotePlanned applies a plan of a sealed release. The gate judges a staged
// release first. Then the promotion is planned again from the current
// manifest, and continues only if the plan is the same. The verdict is about
// the destination or, if the gate refused, about the source.
func PromotePlanned(ctx context.Context, c Config, planned promotionplan.Plan) (*verdict.Verdict, error) {
	p, to, err := admitPlanned(ctx, c, planned)
	if err != nil {
		return nil, err
	}
	act := toStaging()
	if p.from.accepted = planned.Release.Manifest; to == profile.Release {
		act = toRelease()
	}
	if err := performOne(ctx, p, act); err != nil {
		return nil, err
	}
	return p.Decide(ctx, to)
}

// CheckPlanned makes every check that [PromotePlanned] makes before it
// copies, and copies nothing.
func CheckPlanned(ctx context.Context, c Config, planned promotionplan.Plan) error {
	_, _, err := admitPlanned(ctx, c, planned)
	return err
}

// admitPlanned makes the pipeline of a planned promotion and returns its
// destination, if the promotion may run.
func admitPlanned(ctx context.Context, c Config, planned promotionplan.Plan) (*Pipeline, profile.Stage, error) {
	sealed := planned.Release
	if sealed == nil {
		return nil, "", verdict.Refuse(verdict.Usage, "plan", "not a plan of a sealed release")
	}
	var err error
	if c.Version, err = version.Parse(sealed.Version); err != nil {
		return nil, "", err
	}
	to := profile.Stage(sealed.To)
	if to != profile.Staging && to != profile.Release {
		return nil, "", verdict.Refuse(verdict.ConfigParse, "plan", "unknown destination %q: want staging or release", sealed.To)
	}
	p, err := New(c)
	if err != nil {
		return nil, "", err
	}
	now, err := p.PlanRelease(ctx, to)
	if err != nil {
		return nil, "", err
	}
	return p, to, stale(planned, now)
}

// stale refuses a plan that would be different today, and says how.
func stale(planned, now promotionplan.Plan) error {
	if planned.Digest().Equal(now.Digest()) {
		return nil
	}
	why, want, got := "planning again gives a different plan", planned.Digest(), now.Digest()
	a, b := planned.Release, now.Release
	switch {
	case !a.Manifest.Equal(b.Manifest):
		why, want, got = "the source has another manifest now", a.Manifest, b.Manifest
	case planned.Stores[0].Source != now.Stores[0].Source || planned.Stores[0].Destinations[0] != now.Stores[0].Destinations[0]:
		why = "the profile names other places now"
	}
	return verdict.Refuse(verdict.PlanStale, a.Name+" "+a.Version, "the plan is out of date: %s", why).Differ(want.String(), got.String()).
		Advise("plan again, review what changed, and apply the new plan")
}

// PromoteFiles applies a plan of files. The policy's requirements for
// binaries apply to all: a list of files does not say what they are.
func (p *Pipeline) PromoteFiles(ctx context.Context, planned promotionplan.Plan, how Promotion) (*verdict.Verdict, error) {
	now := p.Clock()
	judge, err := p.Gate.One(profile.Staging, now, planned.FileGoals()...)
	if err != nil {
		return nil, err
	}
	return promote.Files{
		Plan: planned, Class: plan.Binary, Open: p.openPlace, OpenWriter: p.OpenWriter, Now: now, Progress: how.Progress, Judge: judge,
	}.Apply(ctx)
}
