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
		Long: `Bring a tagged commit to the staging place: plan, preflight, build, sbom, sign,
seal, promotion to staging, and the gate's decision about the staged release. Run it
again after an interruption: it reuses the steps that are still valid and redoes the
rest.

Without --confirm nothing is done and nothing is written. It prints the plan and the
signatures to make: how many of which kind, by which identity and with which
services, how many certificates, timestamps and log entries they need, and what is
signed already. For this it reads the source and the given tokens; it contacts no
signing service and no place.

The preflight runs the checks of waybill doctor --for stage, and stops with the list
of all problems before anything is built.

Several versions are several releases, one after another, each with its own state
directory (below --state), manifest and verdict. All are planned and checked before
the first step of any; if one fails, the later ones are not started. With several
versions, a file of --output needs {version} in its name.`,
		Example: `  waybill stage v0.1.0 --source ./lantern --profile profile.yaml \
    --identity-token builder=builder.token --identity-token release=release.token --confirm
  waybill stage v1.31.0 v1.32.0-alpha.0 --source ./kubernetes --profile profile.yaml \
    --identity-token builder=builder.token --identity-token release=release.token \
    --output json=verdict-{version}.json --confirm`,
		Args: cobra.MinimumNArgs(1),
	}, "the release is staged, and the gate accepts it;\nwithout --confirm: nothing prevents it, and plan and signatures were printed", doctor.Stage, (*pipeline.Pipeline).Stage, (*project).addSourceFlags, (*project).addLegacyFlag)
}

func releaseCommand() *cobra.Command {
	return composite(cobra.Command{
		Use:   "release VERSION",
		Short: "Publish a staged release that the gate accepts, verify it, and record that",
		Long: `Publish a staged release: the gate decides about it, the promotion copies exactly
what was judged (files, images with their evidence, tags, the manifest last), and
the release is verified at the public place.

Then, if a token of the verifier is given, the verifier records the result: one SLSA
verification summary of everything that was built, beside the manifest and attached
to each image, and a promotion record for each image. The summary claims exactly the
level that was determined. The profile's records must name the verifier and the
address of the policy, and the policy's late must allow the verifier to add
summaries to a published release. Otherwise no record is written, and the verdict
says why.

Last, the version markers that release.yaml names are updated, below the address in
places.markers of the profile. A marker with a higher version is left unchanged, and
so is a file that contains no version.

Each tag is read immediately before and after it is written (TAG_CONFLICT,
TAG_RACE). --lease excludes another run of this release during the publication; the
lease is checked before each tag and before the manifest.

Without --confirm the gate decides, the copies, records and markers to write are
printed, and nothing is done. Run it again after any interruption: existing copies
and records are kept, and no statement is signed twice.`,
		Example: `  waybill release v0.1.0 --profile profile.yaml --confirm
  waybill release v0.1.0 --profile profile.yaml --identity-token verifier=verifier.token --confirm`,
		Args: cobra.ExactArgs(1),
	}, "the release is published, and was accepted there;\nwithout --confirm: the gate accepts the staged release", "", (*pipeline.Pipeline).Release, (*project).addLeaseFlags)
}

// composite makes a command that runs several stages and ends in a verdict on each
// version. done says what status 0 means.
func composite(cmd cobra.Command, done string, purpose doctor.Purpose, run func(*pipeline.Pipeline, context.Context) (*verdict.Verdict, error), more ...func(*project, *cobra.Command)) *cobra.Command {
	o := &project{}
	output := &cli.Output{}
	confirm := false
	cmd.GroupID = "release"
	cmd.Long += "\n\n" + exit.Table(done)
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if err := errors.Join(output.Check(), quietly(c, confirm)); err != nil {
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
			err = answer(c, output.ForVersion(i), v, err)
			output.ForVersion(i).End(c, args[i:i+1], err)
			return err
		})
		if !begun {
			return answer(c, output.TableOnly(), nil, err)
		}
		return err
	}
	o.addFlags(&cmd)
	o.addTokenFlags(&cmd)
	o.addFeatureFlags(&cmd)
	o.waivers.AddFlags(&cmd)
	o.sources.AddFlags(&cmd)
	for _, add := range more {
		add(o, &cmd)
	}
	output.AddFlags(&cmd)
	addMetricsFlag(&cmd)
	cmd.Flags().BoolVar(&confirm, "confirm", false, "do it; without it, only print what would be done")
	return &cmd
}

// quietly refuses --quiet for a command that only prints what it would do.
func quietly(c *cobra.Command, confirm bool) error {
	if confirm {
		return nil
	}
	return cli.Unused(c, "without --confirm the command prints what it would do, and --quiet one line; leave the flag out or add --confirm", cli.Quiet)
}

// printAfterwards prints the records and the markers that would be written.
func printAfterwards(ctx context.Context, cmd *cobra.Command, p *pipeline.Pipeline) error {
	lines, err := p.Afterwards(ctx)
	for _, line := range lines {
		fmt.Fprintln(cmd.OutOrStdout(), line)
	}
	return err
}

// answer prints a verdict: v, or the one in err.
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
		Short:   "Show the progress of a release, what is public, and the next command",
		GroupID: "release",
		Long: `Read the state directory, the staging place and the release place, and show the
progress of the release, whether it is public, what the verifier recorded, where the
version markers point, whether it is safe to repeat the last command, and the next
command to run. Nothing is changed, no token is needed, and a run in progress is not
disturbed.

It reports what is at the places, not what a run recorded: a release is at a place
if its manifest is there and verifies. To check every file, use waybill verify. An
interrupted run is continued with the same command, which the journal in the state
directory has kept. If the last release made no summary (--feature-gates
EmitVSA=false), none is reported missing; without that state directory, give the
flag here, too.

EXIT STATUS
  0  the state was read and printed; the release itself may be unfinished
  1  refused: the state directory is inconsistent
  2  wrong use, or a malformed policy, profile or configuration
  3  a place did not answer; the state of the others is printed
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

// pointsAt is the version in a marker, or why it has none.
func pointsAt(m pipeline.Marker) string {
	switch {
	case m.Problem != "":
		return m.Problem
	case m.Version.IsZero():
		return "does not exist"
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
			fmt.Fprintf(w, "%s: the state directory has no release\n\n", s.Version)
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
