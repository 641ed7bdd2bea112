package pipeline

import (
	"context"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/promote"
	"github.com/waybill-release/waybill/pkg/routes"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// PromoteFiles applies a plan of files, by what the policy of the profile asks
// of binaries: a list does not say what its files are.
func (p *Pipeline) PromoteFiles(ctx context.Context, planned routes.Plan, how Promotion) (*verdict.Verdict, error) {
	effective, err := gate.Effective(p.Switches, p.Profile.Policy, planned.FileGoals()...)
	if err != nil {
		return nil, err
	}
	return promote.Files{
		Plan: planned, Class: plan.Binary, Open: p.openPlace, OpenWriter: p.OpenWriter, Now: p.Clock(), Progress: how.Progress,
		Judge: gate.PolicyRequest{
			Policy: effective, Verifier: p.verifier, Stage: policy.Staging, Now: p.Clock(), Waivers: how.Waivers,
		},
	}.Apply(ctx)
}
