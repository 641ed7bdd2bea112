package pipeline

import (
	"context"

	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/promote"
	"github.com/waybill-release/waybill/pkg/routes"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// PromoteFiles applies a plan of files, by what the policy of the profile asks
// of binaries: a list does not say what its files are.
func (p *Pipeline) PromoteFiles(ctx context.Context, planned routes.Plan, how Promotion) (*verdict.Verdict, error) {
	now := p.Clock()
	judge, err := p.Gate.One(profile.Staging, now, planned.FileGoals()...)
	if err != nil {
		return nil, err
	}
	return promote.Files{
		Plan: planned, Class: plan.Binary, Open: p.openPlace, OpenWriter: p.OpenWriter, Now: now, Progress: how.Progress, Judge: judge,
	}.Apply(ctx)
}
