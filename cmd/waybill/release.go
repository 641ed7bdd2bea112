package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func stageCommand() *cobra.Command {
	return composite(cobra.Command{
		Use:   "stage VERSION…",
		Short: "Build, describe, sign, seal and stage a release",
		Long: `Take a tagged commit to the staging place: plan, preflight, build, sbom, sign,
seal, promotion to staging, and the gate's decision about what lies there. Run
it again after an interruption: it takes over what holds and makes what is
missing.

Without --confirm nothing is done and nothing is written. It prints the plan, and
what would be signed: how much of what, as whom and with which services, how
many certificates, timestamps and log entries that takes, and what an earlier
run has signed already. For that it reads the source and the tokens that are
given; no signing service and no place is asked.

The preflight looks at everything that waybill doctor --for stage does, and
stops with the whole list of what is wrong before anything is made.

Several versions are several releases, one after another: each has a state
directory (below --state), a manifest and a verdict of its own. All are planned
and looked at before the first step of any; if one fails, those after it are not
begun. A file of --output then needs {version} in its name.`,
		Example: `  waybill stage v0.1.0 --source ./lantern --profile profile.yaml \
    --identity-token builder=builder.token --identity-token release=release.token --confirm
  waybill stage v1.31.0 v1.32.0-alpha.0 --source ./kubernetes --profile profile.yaml \
    --identity-token builder=builder.token --identity-token release=release.token \
    --output json=verdict-{version}.json --confirm`,
		Args: cobra.MinimumNArgs(1),
	}, doctor.Stage, (*pipeline.Pipeline).Stage, (*project).addSourceFlags, (*project).addLegacyFlag)
}

func releaseCommand() *cobra.Command {
	return composite(cobra.Command{
		Use:   "release VERSION",
		Short: "Let a staged release through the gate, publish it, verify it, record that",
		Long: `Take a staged release to the public: the gate decides about what lies in staging,
the promotion copies exactly that (files, images with their evidence, tags, the
manifest last), and the release is verified where users will find it.

Then the verifier records what was found, if a token of that role is given: one
SLSA verification summary over all that was built, beside the manifest and
attached to each image, and for each image the record of its promotion. It
claims the level that was worked out, and no other. For that the profile's
records must name the verifier and the address of the policy, and the policy's
late must let the verifier add summaries to a release that is public. Where one
of these is not so, no record is written, and the verdict says why.

Last, the version markers that release.yaml names are moved, below the address
that the profile has in places.markers. A marker that holds a higher version
stays where it is; one that holds no version at all is not written over.

Each tag is looked at immediately before it is written and after (TAG_CONFLICT,
TAG_RACE). With --lease another run of this release is kept out while it is made
public, and before each tag and the manifest it is made sure that the lease is
still held.

Without --confirm the gate decides, what would be copied, recorded and moved is
printed, and nothing is done. Run it again after an interruption, wherever that
was: what is there stays, and nothing is signed twice.`,
		Example: `  waybill release v0.1.0 --profile profile.yaml --confirm
  waybill release v0.1.0 --profile profile.yaml --identity-token verifier=verifier.token --confirm`,
		Args: cobra.ExactArgs(1),
	}, "", (*pipeline.Pipeline).Release, (*project).addLeaseFlags)
}

// composite makes a command that ends in a verdict on each version.
func composite(cmd cobra.Command, purpose doctor.Purpose, run func(*pipeline.Pipeline, context.Context) (*verdict.Verdict, error), more ...func(*project, *cobra.Command)) *cobra.Command {
	o := &project{}
	output := &cli.Output{}
	confirm := false
	cmd.GroupID = "release"
	cmd.Long += "\n\n" + exit.Table
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if err := output.Check(); err != nil {
			return err
		}
		versions, err := cli.Versions(args)
		if err != nil {
			return err
		}
		if err := output.Each(versions); err != nil {
			return err
		}
		train, ctx, err := o.openAll(c, args)
		if err != nil {
			return err
		}
		if !confirm {
			return dryRun(ctx, c, train, purpose == doctor.Stage, output)
		}
		begun := false
		err = train.Run(ctx, purpose, func(ctx context.Context, i int, p *pipeline.Pipeline) error {
			begun = true
			v, err := run(p, ctx)
			err = answer(c, output.Of(i), v, err)
			output.Of(i).End(c, args[i:i+1], err)
			return err
		})
		if !begun {
			return answer(c, output.Eyes(), nil, err)
		}
		return err
	}
	o.addFlags(&cmd)
	o.addTokenFlags(&cmd)
	o.addFeatureFlags(&cmd)
	o.waivers.AddFlags(&cmd)
	for _, add := range more {
		add(o, &cmd)
	}
	output.AddFlags(&cmd)
	addMetricsFlag(&cmd)
	cmd.Flags().BoolVar(&confirm, "confirm", false, "really do it")
	return &cmd
}

// printAfterwards says what would be recorded, and which markers would move.
func printAfterwards(ctx context.Context, cmd *cobra.Command, p *pipeline.Pipeline) error {
	lines, err := p.Afterwards(ctx)
	for _, line := range lines {
		fmt.Fprintln(cmd.OutOrStdout(), line)
	}
	return err
}

// answer prints a verdict, also the one that an error carries.
func answer(c *cobra.Command, output *cli.Output, v *verdict.Verdict, err error) error {
	return answerTo(c.OutOrStdout(), output, v, err)
}

func answerTo(w io.Writer, output *cli.Output, v *verdict.Verdict, err error) error {
	var judged *verdict.NotAcceptedError
	if errors.As(err, &judged) {
		v = &judged.Verdict
	}
	if v == nil {
		return err
	}
	if printed := output.Write(w, *v); printed != nil {
		return printed
	}
	return v.Err()
}

func statusCommand() *cobra.Command {
	o := &project{}
	var output string
	cmd := &cobra.Command{
		Use:     "status VERSION",
		Short:   "Say where a release stands, what is public, and what to type next",
		GroupID: "release",
		Long: `Look at the state directory, the staging place and the release place, and say
how far the release has come, whether it is public, what the verifier recorded
of it, where the version markers point, what can be repeated, and the next
command, as it is to be typed. Nothing is changed, no token is needed, and a run
that is at work is not disturbed.

It says what the places hold, not what a run believed: a release is at a place
when its manifest is there and verifies; whether every file is, waybill verify
tells. A run that was interrupted is gone on with by the very same command, which
the journal in the state directory has kept. Where the last release was told to make
no summary (--feature-gates EmitVSA=false), none is missing; who released without
that directory gives the flag here, too.

EXIT STATUS
  0  everything could be looked at, wherever the release stands
  1  refused: what the state directory holds does not fit together
  2  wrong use, or a malformed policy, profile or configuration
  3  a place did not answer; what was seen of the others is printed
  4  a bug in this program`,
		Example: `  waybill status v0.1.0 --profile profile.yaml
  waybill status v0.1.0 --profile profile.yaml --state state --output json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, ctx, err := o.open(cmd, args)
			if err != nil {
				return err
			}
			s, err := p.Status(ctx)
			if err != nil {
				return err
			}
			if err := printStatus(cmd.OutOrStdout(), output, s); err != nil {
				return err
			}
			return s.Err()
		},
	}
	o.addFlags(cmd)
	o.feature.gate = newGate()
	addGatesFlag(cmd, o.feature.gate)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// pointsAt says what a marker holds.
func pointsAt(m pipeline.Marker) string {
	switch {
	case m.Problem != "":
		return m.Problem
	case m.Version.IsZero():
		return "not there"
	}
	return m.Version.String()
}

func printStatus(w io.Writer, output string, s pipeline.Status) error {
	switch output {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	case "table":
		if s.Name == "" {
			fmt.Fprintf(w, "%s: nothing was begun in the state directory\n\n", s.Version)
		} else {
			fmt.Fprintf(w, "%s %s, commit %.12s\n\n", render.Safe(s.Name), s.Version, s.Commit)
		}
		t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		for _, stage := range s.Stages {
			far := fmt.Sprintf("%d of %d", stage.Done, stage.Of)
			if stage.Of == 0 {
				far = "not wanted"
			}
			fmt.Fprintf(t, "  %s\t%s\t%s\n", stage.Name, far, stage.Note)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, m := range s.Markers {
			fmt.Fprintf(w, "  marker %s: %s\n", render.Safe(m.Name), render.Safe(pointsAt(m)))
		}
		if s.Last != "" {
			fmt.Fprintf(w, "\nlast:   %s", render.Safe(s.Last))
		}
		if !s.Trace.IsZero() {
			fmt.Fprintf(w, "\ntrace:  %s (initial %s)", s.Trace.Trace, s.Trace.Initial)
		}
		fmt.Fprintf(w, "\npublic: %s\nsafe:   %s\nnext:   %s\n        %s\n", s.Public, s.Safe, render.Safe(s.Why), render.Safe(s.Next))
		return nil
	}
	return verdict.Refuse(verdict.Usage, "--output", "%q: want table or json", output)
}
