package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPlanFile bounds a saved plan.
const maxPlanFile = 512 << 20

// applying are the options of applying a plan.
type applying struct {
	project
	sharing sharing
	output  cli.Output
	confirm bool
}

func promoteApplyCommand() *cobra.Command {
	o := &applying{}
	cmd := &cobra.Command{
		Use:   "apply PLAN",
		Short: "Promote what a plan says, and nothing else",
		Long: `Apply a plan that waybill promote plan made. Each image is decided about by the
policy of the profile, and by what its manifest demands itself; what is accepted
is copied by digest with everything that refers to it, recorded by the verifier
identity, read back, and tagged last. A tag is there with all its evidence, or
it is not there. What refers to an image and can be run itself, or cannot be
read, is no evidence: it is left behind, and the verdict says so.

A tag that names another image is never moved, unless an exception that the
policy's officer signed says so: waybill policy except --code TAG_CONFLICT --name
PATH@TAG --destination HOST/PATH. An image that is refused, and a destination
that does not answer, stop nothing else; the verdict counts them, and the same
command goes on with them. What an earlier run brought takes two questions to
know; a run with another --state knows nothing, and looks at everything.

Files of a plan are hashed where they lie and judged with the bundle beside each
(NAME.sigstore.json), by what the policy asks of binaries; the bundle is copied
first, and a name that holds other bytes is never written over. A plan of a
sealed release is made once more: if it would be another one now it is refused
(PLAN_STALE), else what is staged passes the gate and is copied, its manifest
last.

Several workers can each promote a part of a plan of images (--shard i/n): an
image falls to one of them by its digest. With --results each writes what it did
into a directory or bucket, an attempt a file, and waybill promote merge accounts
for all of them. A shard that no image falls to does nothing and ends with 0.

With --lease a run holds an object of a bucket, or of a directory that is there,
and renews it; another run of the same shard of any plan is refused as BUSY until
it is given back or has run out, and so is another run without --shard, where
there are none. Shards and a run of the whole do not keep each other out. Before
each tag is written it is made sure that the lease is still held. Without --lease
nothing keeps others out: a tag that another wrote at the same time is found when
it is read back (TAG_RACE).

Without a token of the verifier nothing is recorded, and the verdict says that.
Without --confirm nothing is copied: the plan's extent is printed, of a sealed
release only if the gate lets it go. A flag that the kind of plan has no use for
is wrong use.

` + exit.Table,
		Example: `  waybill promote plan ./registry.k8s.io --output json > plan.json
  waybill promote apply plan.json --profile profile.yaml
  waybill promote apply plan.json --profile profile.yaml --identity-token verifier=verifier.token --confirm
  waybill promote apply plan.json --profile profile.yaml --shard 3/8 --results gs://promotions/results --lease gs://promotions/leases --confirm`,
		Args: cobra.ExactArgs(1),
		RunE: o.run,
	}
	o.addFlags(cmd)
	return cmd
}

func (o *applying) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", "", "profile that names policy, trust root, signing services and the verifier (required)")
	f.StringVar(&o.state, "state", ".waybill", "directory that remembers what was promoted and signed; a second run goes on from it")
	addMetricsFlag(cmd)
	o.as.addFlags(cmd, pipeline.TokenVerifier)
	o.keys.addFlags(cmd, pipeline.TokenVerifier)
	o.addFeatureFlags(cmd)
	f.DurationVar(&o.wait, "patience", 10*time.Minute, "how long a signing service, or a fresh token in place of one that ran out, is waited for")
	o.sharing.addFlags(cmd)
	o.waivers.AddFlags(cmd)
	o.output.AddFlags(cmd)
	f.BoolVar(&o.confirm, "confirm", false, "really promote")
}

func (o *applying) run(cmd *cobra.Command, args []string) error {
	if err := o.output.Check(); err != nil {
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
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was copied; add --confirm to promote it")
		return nil
	case shard.IsEmpty(plan):
		fmt.Fprintf(cmd.ErrOrStderr(), "no image of the plan falls to shard %s\n", shard)
		return nil
	}
	v, err := o.apply(cmd, plan, shard, with)
	err = answer(cmd, &o.output, v, err)
	o.output.End(cmd, args, err)
	return err
}

// unused refuses the flags that the kind of plan leaves without a use.
func (o *applying) unused(cmd *cobra.Command, plan promotionplan.Plan) error {
	records := []string{"identity", "identity-token", "key", "key-password", "patience"}
	if err := checkLease(cmd, o.sharing.with.Exclusion); err != nil {
		return err
	}
	switch {
	case plan.Release != nil:
		if plan.Release.To == string(profile.Staging) {
			if err := cli.Unused(cmd, ungated, decides...); err != nil {
				return err
			}
		}
		return cli.Unused(cmd, "nothing is signed for a plan of a sealed release; waybill release records it", records...)
	case len(plan.Files) > 0:
		if err := cli.Unused(cmd, "an exception is for a finding of a release or for a tag, and a plan of files has neither", "exception"); err != nil {
			return err
		}
		return cli.Unused(cmd, "nothing is signed for a plan of files", records...) // --state is for every plan
	}
	return nil
}

// foresee asks what a sealed release is asked before it is copied. Images and
// files are decided about one by one, as they are promoted.
func (o *applying) foresee(cmd *cobra.Command, plan promotionplan.Plan) error {
	if plan.Release == nil {
		return nil
	}
	by, err := o.gate(cmd.Context())
	if err != nil {
		return err
	}
	config, ctx, err := o.config(cmd, by)
	if err != nil {
		return err
	}
	return pipeline.CheckPlanned(ctx, config, plan)
}

// litter is how much may be left behind before it is collected, in hundredths
// of what is kept. A promotion waits most of the time, and has some of it to
// collect twice as often as usual, in less memory.
const litter = 50

// apply does it.
func (o *applying) apply(cmd *cobra.Command, plan promotionplan.Plan, shard promote.Shard, with pipeline.Shared) (*verdict.Verdict, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(litter)
	}
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
	how := pipeline.Promotion{Shard: shard, Progress: ui.NewCount(cmd.ErrOrStderr(), "images").Update}
	if len(plan.Files) > 0 {
		how.Progress = ui.NewCount(cmd.ErrOrStderr(), "files").Update
		return p.PromoteFiles(ctx, plan, how)
	}
	done, err := p.PromoteShard(ctx, plan, how, with)
	return done.Verdict, err
}
