package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// judgeFiles decides about the files of a plan at their source, each by the
// requirements of its class and the bundle beside it.
func (o *gateCheck) judgeFiles(cmd *cobra.Command, req gate.PolicyRequest, p promotionplan.Plan) (*verdict.Verdict, error) {
	if o.one.policy == "" {
		return nil, verdict.Refuse(verdict.Usage, "--policy", "required: a list of files contains no requirements")
	}
	if !slices.Contains(fileClasses(), o.class) {
		return nil, verdict.Refuse(verdict.Usage, "--class", "%q: want one of %s", o.class, strings.Join(fileClasses(), ", "))
	}
	rt := cli.Transport(o.release.Trust.Offline)
	progress := ui.NewProgress(cli.Notes(cmd))
	defer progress.Ended("")
	return promote.Files{
		Plan: p, Judge: req, Class: plan.Class(o.class), Now: req.Now, Progress: progress.Count("judging", "files"),
		Open: func(uri string) (store.Place, error) { return cloud.OpenPlace(uri, rt) },
	}.Decide(cmd.Context())
}
