package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPlanFile bounds a saved plan.
const maxPlanFile = 512 << 20

// applying are the options of promote apply.
type applying struct {
	project
	sharing sharing
	output  cli.Output
	confirm bool
}

func promoteApplyCommand() *cobra.Command {
	o := &applying{}
	cmd := newCommand("promote_apply", cobra.ExactArgs(1), o.run)
	o.addFlags(cmd)
	return cmd
}

func (o *applying) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", "", "profile that names policy, trust root, signing services and the verifier (required)")
	f.StringVar(&o.state, "state", ".waybill", "directory that records what was promoted and signed; another run continues from it")
	addMetricsFlag(cmd)
	o.as.addFlags(cmd, pipeline.TokenVerifier)
	o.keys.addFlags(cmd, pipeline.TokenVerifier)
	o.addFeatureFlags(cmd)
	f.DurationVar(&o.wait, "patience", 10*time.Minute, "how long to wait for a signing service, or for a new token after one has expired")
	o.sharing.addFlags(cmd)
	o.waivers.AddFlags(cmd)
	o.sources.AddFlags(cmd)
	o.output.AddFlags(cmd)
	f.BoolVar(&o.confirm, "confirm", false, "promote; without it, only print the size of the plan")
}

func (o *applying) run(cmd *cobra.Command, args []string) error {
	if err := quietly(cmd, o.confirm); err != nil {
		return err
	}
	plan, err := readPlan(args[0])
	if err != nil {
		return err
	}
	shard, with, err := o.sharing.parse(plan)
	if err != nil {
		return err
	}
	if err := o.unused(cmd, plan); err != nil {
		return err
	}
	switch {
	case !o.confirm:
		if err := o.foresee(cmd, plan); err != nil {
			return answer(cmd, &o.output, nil, err)
		}
		printRoutes(cmd.OutOrStdout(), plan)
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was copied; add --confirm to promote")
		return nil
	case shard.IsEmpty(plan):
		fmt.Fprintf(cli.Notes(cmd), "shard %s has no image of the plan\n", shard)
		return nil
	}
	v, err := o.apply(cmd, plan, shard, with)
	err = answer(cmd, &o.output, v, err)
	o.output.End(cmd, args, err)
	return err
}

// unused refuses the flags that do not apply to the kind of the plan.
func (o *applying) unused(cmd *cobra.Command, plan promotionplan.Plan) error {
	records := []string{"identity", "identity-token", "key", "key-password", "patience"}
	if err := checkLease(cmd, o.sharing.with.Exclusion); err != nil {
		return err
	}
	switch {
	case plan.Release != nil:
		if plan.Release.To == string(profile.Staging) {
			if err := cli.Unused(cmd, noDecision, decisionFlags...); err != nil {
				return err
			}
		}
		return cli.Unused(cmd, "nothing is signed for a plan of a sealed release; leave the flag out, or use waybill release, which records it", records...)
	case len(plan.Files) > 0:
		if err := cli.Unused(cmd, "an exception is for a finding about a release or for a tag, and a plan of files has neither", "exception"); err != nil {
			return err
		}
		return cli.Unused(cmd, "nothing is signed for a plan of files; leave the flag out", records...) // --state applies to every plan
	}
	return nil
}

// foresee reads the profile and its policy, and lets the gate decide about a sealed
// release before it is copied. Images and files are judged one by one, as they
// are promoted.
func (o *applying) foresee(cmd *cobra.Command, plan promotionplan.Plan) error {
	by, err := o.gate(cmd.Context())
	if err != nil || plan.Release == nil {
		return err
	}
	config, ctx, err := o.config(cmd, by)
	if err != nil {
		return err
	}
	return pipeline.CheckPlanned(ctx, config, plan)
}

// promoteGCPercent is the GOGC of a promotion: it mostly waits for the network, so trade CPU
// for memory.
const promoteGCPercent = 50

// apply applies a plan, or a shard of it.
func (o *applying) apply(cmd *cobra.Command, plan promotionplan.Plan, shard promotionplan.Shard, with pipeline.Shared) (*verdict.Verdict, error) {
	gcPercent(promoteGCPercent)
	by, err := o.gate(cmd.Context())
	if err != nil {
		return nil, err
	}
	config, ctx, err := o.config(cmd, by)
	if err != nil {
		return nil, err
	}
	if plan.Release != nil {
		return pipeline.PromotePlanned(ctx, config, plan)
	}
	p, err := pipeline.New(config)
	if err != nil {
		return nil, err
	}
	how := pipeline.Promotion{Shard: shard, Progress: o.progress.Count("promoting", "images")}
	defer o.progress.Ended("")
	if len(plan.Files) > 0 {
		how.Progress = o.progress.Count("promoting", "files")
		return p.PromoteFiles(ctx, plan, how)
	}
	done, err := p.PromoteShard(ctx, plan, how, with)
	return done.Verdict, err
}

// Limits of a lease: a shorter one expires during a slow request, and a longer one
// blocks other runs for too long after a crash.
const (
	minTerm = time.Second
	maxTerm = time.Hour
)

// sharing are the options for several workers on one plan.
type sharing struct {
	shard string
	with  pipeline.Shared
}

func (o *sharing) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.shard, "shard", "0/1", "i/n: promote part i (from 0) of n parts; the digest of an image determines its part")
	f.StringVar(&o.with.Results, "results", "", "directory or bucket for the results of the shard, for waybill promote merge")
	addLeaseFlags(cmd, &o.with.Exclusion, "the same shard")
}

// addLeaseFlags adds the flags of a lease, which excludes other runs of the same
// work.
func addLeaseFlags(cmd *cobra.Command, with *pipeline.Exclusion, same string) {
	f := cmd.Flags()
	f.StringVar(&with.Lease, "lease", "", "directory, bucket or kubernetes://NAMESPACE for a lease during the run, which excludes another run of "+same)
	f.DurationVar(&with.Term, "lease-term", lease.Term, "how long the lease lasts without renewal, such as after a crash")
}

// checkLease refuses a term without a lease, and one that is too short or too long.
func checkLease(cmd *cobra.Command, with pipeline.Exclusion) error {
	switch {
	case with.Lease == "":
		return cli.Unused(cmd, "the flag needs --lease", "lease-term")
	case with.Term < minTerm || with.Term > maxTerm:
		return verdict.Refuse(verdict.Usage, "--lease-term", "%s: want from %s to %s", with.Term, minTerm, maxTerm)
	}
	return nil
}

// parse reads the flags, which only apply to plans of images.
func (o *sharing) parse(plan promotionplan.Plan) (promotionplan.Shard, pipeline.Shared, error) {
	s, err := promotionplan.ParseShard(o.shard)
	switch {
	case err != nil:
		return promotionplan.Shard{}, pipeline.Shared{}, err
	case (s.Of > 1 || o.with.Results != "" || o.with.Lease != "") && (plan.Release != nil || len(plan.Files) > 0):
		return promotionplan.Shard{}, pipeline.Shared{}, verdict.Refuse(verdict.Usage, "PLAN", "not a plan of images; only those are promoted in shards, with results and a lease").
			Advise("leave out --shard, --results and --lease")
	}
	return s, o.with, nil
}
