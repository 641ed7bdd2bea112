package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// merging are the options of promote merge.
type merging struct {
	results string
	output  cli.Output
}

func promoteMergeCommand() *cobra.Command {
	o := &merging{}
	cmd := newCommand("promote_merge", cobra.ExactArgs(1), o.run)
	cmd.Flags().StringVar(&o.results, "results", "", "directory or bucket with the results of the shards (required)")
	o.output.AddFlags(cmd)
	return cmd
}

func (o *merging) run(cmd *cobra.Command, args []string) error {
	if o.results == "" {
		return verdict.Refuse(verdict.Usage, "--results", "required: the place that the shards wrote to")
	}
	plan, err := readPlan(args[0])
	if err != nil {
		return err
	}
	if len(plan.Edges) == 0 || plan.Release != nil {
		return verdict.Refuse(verdict.Usage, args[0], "not a plan of images, and only those are promoted in shards")
	}
	at, err := cloud.OpenPlace(promote.ResultsPlace(o.results, plan.Digest()), cli.Transport(false))
	if err != nil {
		return verdict.Wrap(verdict.Usage, "--results", err)
	}
	again := strings.Join([]string{"waybill promote apply", args[0], "--profile PROFILE --results", o.results}, " ")
	v, err := promote.Shards{Plan: plan, Results: at, Again: again, Now: time.Now()}.Merge(cmd.Context())
	return answer(cmd, &o.output, v, err)
}

func readPlan(name string) (plan promotionplan.Plan, err error) {
	raw, err := store.ReadNamed(name, maxPlanFile)
	if err == nil {
		plan, err = promotionplan.Parse(raw)
		err = verdict.InFile(name, err)
	}
	return plan, verdict.AdviseOn(name, err, "make the plan with waybill promote plan --output json, and do not edit it", verdict.Usage, verdict.ConfigParse)
}
