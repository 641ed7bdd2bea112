package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// decisionFlags are the flags that influence a decision. Promotion to staging makes none:
// the gate decides when the release is promoted from there.
var decisionFlags = []string{"exception", "accept-defect", "known-defects", "source-vsa", "declaration", "features", "report-as"}

const noDecision = "promotion to staging makes no decision; the gate decides when the release is promoted from there. Leave the flag out"

func promoteCommand() *cobra.Command {
	o := &project{}
	var to string
	confirm := false
	cmd := newCommand("promote", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		stage := profile.Stage(to)
		if stage != profile.Staging && stage != profile.Release {
			return verdict.Refuse(verdict.Usage, "--to", "%q: want staging or release", to).Advise("add --to staging, or --to release for a staged release")
		}
		if err := cli.Unused(cmd, "the release is already built, and its manifest records the parameters; leave the flag out", "parameter"); err != nil {
			return err
		}
		if stage == profile.Staging {
			if err := cli.Unused(cmd, noDecision, decisionFlags...); err != nil {
				return err
			}
		}
		p, ctx, err := o.open(cmd, args)
		if err != nil {
			return err
		}
		if !confirm {
			return answer(cmd, cli.TableOutput(), nil, printPromotion(ctx, cmd, p, stage))
		}
		if stage == profile.Staging {
			return p.PromoteToStaging(ctx)
		}
		return answer(cmd, cli.TableOutput(), nil, p.PromoteToRelease(ctx))
	})
	o.addFlags(cmd)
	o.waivers.AddFlags(cmd)
	o.sources.AddFlags(cmd)
	o.feature.addSiteFlags(cmd)
	cmd.Flags().StringVar(&to, "to", "", "staging or release (required)")
	cmd.Flags().BoolVar(&confirm, "confirm", false, "copy; without it, only print what would be copied")
	cmd.AddCommand(promotePlanCommand(), promoteApplyCommand(), promoteMergeCommand(), promoteDiffCommand())
	return cmd
}

func printPromotion(ctx context.Context, cmd *cobra.Command, p *pipeline.Pipeline, stage profile.Stage) error {
	planned, err := p.PlanPromotion(ctx, stage)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	var total int64
	for _, f := range planned.Files {
		total += f.Size
		fmt.Fprintf(w, "file   %s  %s\n", f.Digests.SHA256, f.Name)
	}
	for _, i := range planned.Images {
		fmt.Fprintf(w, "image  %s  %s:%s\n", i.Digest, i.Repository, i.Tags)
	}
	fmt.Fprintf(w, "\n%s, %s, %d bytes of files, would go to %s; add --confirm to copy them\n", planned.Name, planned.Extent(), total, stage)
	return nil
}

func verifyCommand() *cobra.Command {
	cmd := group(*newCommand("verify", nil, nil))
	options := &cli.VerifyRelease{Rules: rules(), OpenPlace: cloud.OpenPlace, Inside: sbom.Look{Layers: &sbom.Layers{}}}
	hub := &onGitHub{VerifyRelease: options}
	whole := newCommand("verify_release", cobra.MinimumNArgs(1), hub.run)
	options.AddFlags(whole)
	options.AddPartFlags(whole)
	hub.addFlags(whole)
	by := &featureFlags{}
	by.addSiteFlags(whole)
	options.Switches = by.switches
	cmd.AddCommand(whole, verifyFileCommand(), verifyBundleCommand(), verifyImageCommand(), verifyLayoutCommand(), verifySourceCommand(), verifyMirrorsCommand())
	return cmd
}

// dryRun prints what stage or release would do. For release the gate decides about
// staging and the promotion is planned; for stage it lists everything to be signed.
func dryRun(ctx context.Context, cmd *cobra.Command, train pipeline.Train, stages bool, output *cli.Output) error {
	asJSON := output.Prints(render.JSON)
	if !stages {
		p := train[0]
		v, err := p.Decide(ctx, profile.Staging)
		printed := *output
		printed.Formats = []string{string(render.Table)}
		if asJSON {
			printed.Formats = []string{string(render.JSON)}
		}
		if err := answer(cmd, &printed, v, err); err != nil {
			return err
		}
		if asJSON {
			return nil
		}
		p = p.After(v)
		if err := printPromotion(ctx, cmd, p, profile.Release); err != nil {
			return err
		}
		return printAfterwards(ctx, cmd, p)
	}
	releases, err := train.Plan(ctx)
	if err != nil {
		return err
	}
	var all []pipeline.Forecast
	for _, p := range train {
		f, err := p.ForecastStage(ctx)
		if err != nil {
			return answer(cmd, cli.TableOutput(), nil, err)
		}
		all = append(all, f)
	}
	if err := printAhead(cmd, releases, all, asJSON); err != nil {
		return err
	}
	if err := errors.Join(slice.Map(all, pipeline.Forecast.Err)...); err != nil {
		return err
	}
	then := " and stage"
	if cmd.Name() == "release" {
		at, err := train[0].Profile.Files(profile.Release, train[0].Version)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "then the gate decides, and %s would be published at %s and verified there\n", plural.Of(len(releases[0].Artifacts), "artifact"), at)
		then = ", stage and publish"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "nothing was done; add --confirm to build, sign%s\n", then)
	return nil
}

func printAhead(cmd *cobra.Command, releases plan.Releases, all []pipeline.Forecast, asJSON bool) error {
	w := cmd.OutOrStdout()
	switch {
	case asJSON && len(all) == 1:
		return render.WriteJSON(w, all[0])
	case asJSON:
		return render.WriteJSON(w, all)
	}
	if err := printPlans(w, "table", releases); err != nil {
		return err
	}
	for _, f := range all {
		fmt.Fprintln(w)
		if err := f.Write(w); err != nil {
			return err
		}
	}
	return nil
}
