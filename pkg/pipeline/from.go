package pipeline

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/seal"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// From is where another tool left a release: its files, and the registry or
// image layout with its images; empty if there are none.
type From struct{ Files, Images string }

// ForecastFrom compares a place that another tool filled with release.yaml at
// the commit, in both directions, and forecasts signing and sealing it. It
// also returns the plan. It reads only names, unless the version is sealed
// already, and writes nothing.
func (p *Pipeline) ForecastFrom(ctx context.Context, at From) (plan.Plan, Forecast, error) {
	planned, from, commit, err := planGiven(ctx, p.job, at)
	if err != nil {
		return plan.Plan{}, Forecast{}, err
	}
	o := &outlook{job: p.job}
	if err := o.begun(found{plan: planned, source: run.Source{Commit: commit}}); err != nil {
		return plan.Plan{}, Forecast{}, err
	}
	if o.w != nil {
		if err := o.sealedFrom(ctx, from, commit); err != nil {
			return plan.Plan{}, Forecast{}, err
		}
	}
	f, err := o.fill(ctx, o.forecast(commit.Commit, "the source "+p.Source.Repository, "the place "+at.Files), signAct(), sealAct())
	return o.plan, f, err
}

// sealedFrom checks whether the contents of a place are sealed in the state
// directory already: then everything is signed.
func (o *outlook) sealedFrom(ctx context.Context, from seal.Origin, commit git.Commit) error {
	config, err := git.ReadFile(ctx, commit, plan.ConfigName)
	if err != nil {
		return err
	}
	o.Sealed, err = seal.SealedFrom(ctx, o.request(o.plan, o.w), from, config)
	if o.Sealed {
		o.Signed, o.Attached = o.plan.Artifacts, o.plan.Artifacts
	}
	return err
}

// SealFrom seals a release that another tool built: its files are copied into
// the state directory, signed, and listed in the signed manifest.
func (p *Pipeline) SealFrom(ctx context.Context, at From) error {
	planned, from, commit, err := planGiven(ctx, p.job, at)
	if err != nil {
		return err
	}
	config, err := git.ReadFile(ctx, commit, plan.ConfigName)
	if err != nil {
		return err
	}
	if p.Tokens[TokenRelease] == nil && p.Keys[TokenRelease] == nil {
		return noToken(TokenRelease)
	}
	if _, err := create(ctx, p.job, found{plan: planned, source: run.Source{Commit: commit}}); err != nil {
		return err
	}
	from.Describe = func(ctx context.Context, req seal.Request) error {
		d := newDescriber(req.Plan, req.Workspace, req.Examined, p.Maker)
		for _, a := range req.Plan.Artifacts {
			if about, _ := req.Plan.Find(a.Of); a.Class == plan.SBOM && a.Of != "" {
				if err := d.describe(ctx, about); err != nil {
					return fmt.Errorf("describing %q: %w", about.Name, err)
				}
			}
		}
		return nil
	}
	a := sealFrom()
	a.name += from.Files.URI()
	a.do = sealing(func(ctx context.Context, req seal.Request) (int, error) {
		_, err := seal.From(ctx, req, from, config)
		return 0, err
	})
	return performOne(ctx, p, a)
}

// planGiven reads the plan of a release that another tool builds, and opens
// the places that it filled, which must contain exactly what is planned.
func planGiven(ctx context.Context, p *job, at From) (plan.Plan, seal.Origin, git.Commit, error) {
	planned, source, err := p.plan(ctx)
	if err == nil && !planned.IsGiven() {
		err = verdict.Refuse(verdict.Usage, plan.ConfigName, "release.yaml has steps, so use waybill build; a release that another tool builds lists outputs instead")
	}
	if err != nil {
		return plan.Plan{}, seal.Origin{}, git.Commit{}, err
	}
	var from seal.Origin
	if from.Files, err = p.openPlace(at.Files); err != nil {
		return plan.Plan{}, seal.Origin{}, git.Commit{}, err
	}
	if at.Images != "" {
		from.Images, err = openImages(at.Images, p.Transport)
	}
	if err == nil {
		err = seal.Compare(ctx, seal.Request{Plan: planned, Clock: p.Clock}, from)
	}
	return planned, from, source.Commit, err
}

// openImages opens a directory as an image layout, and anything else as a
// registry address with repositories below it.
func openImages(at string, rt http.RoundTripper) (registry.Source, error) {
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		return registry.OpenForeign(at)
	}
	return registry.OpenRemote(at, rt)
}
