package pipeline

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Train is several releases that run one after another. They share nothing:
// each has its own state directory, manifest and verdict. But none starts
// before the needs of all are checked.
type Train []*Pipeline

// NewTrain prepares a pipeline for each version, from one configuration.
// Several versions have a subdirectory of the state directory each.
func NewTrain(c Config, versions []version.Version) (t Train, err error) {
	for _, v := range versions {
		own := c
		own.Version = v
		if len(versions) > 1 {
			own.State = filepath.Join(c.State, v.String())
		}
		p, err := New(own)
		if err != nil {
			return nil, err
		}
		t = append(t, p)
	}
	if len(t) == 0 {
		return nil, verdict.Refuse(verdict.Usage, "VERSION", "give at least one version")
	}
	return t, nil
}

// Plan plans every release, and refuses two with the same place.
func (t Train) Plan(ctx context.Context) (plan.Releases, error) {
	var plans []plan.Plan
	for _, p := range t {
		planned, source, err := p.Plan(ctx)
		if err != nil {
			return nil, fmt.Errorf("planning %s: %w", p.Version, err)
		}
		p.Report(ctx, "%s from commit %.12s", p.Version, source.Commit.Commit)
		plans = append(plans, planned)
	}
	return plan.NewReleases(plans...)
}

// Run runs act for each release, in order, after a preflight of all of them
// for the purpose; an empty purpose skips the preflight. The pipeline given
// to act has the results of the preflight. If one fails, the later ones are
// not begun, which is reported.
func (t Train) Run(ctx context.Context, purpose doctor.Purpose, act func(ctx context.Context, i int, p *Pipeline) error) error {
	if purpose != "" {
		jobs := slice.Map(t, func(p *Pipeline) *job { return p.job })
		all, err := preflight(ctx, purpose, jobs...)
		if err != nil {
			return err
		}
		t = make(Train, len(jobs))
		for i, f := range all {
			t[i] = &Pipeline{jobs[i], facts{source: &f}}
		}
	}
	for i, p := range t {
		if len(t) > 1 {
			p.Report(ctx, "release %d of %d: %s", i+1, len(t), p.Version)
		}
		if err := act(ctx, i, p); err != nil {
			for _, later := range t[i+1:] {
				p.Report(ctx, "%s was not started, because %s failed", later.Version, p.Version)
			}
			return err
		}
	}
	return nil
}
