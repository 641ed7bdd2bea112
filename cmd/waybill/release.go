package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func stageCommand() *cobra.Command {
	return composite(newCommand("stage", cobra.MinimumNArgs(1), nil), doctor.Stage, (*pipeline.Pipeline).Stage, (*project).addSourceFlags, (*project).addLegacyFlag)
}

func releaseCommand() *cobra.Command {
	return composite(newCommand("release", cobra.ExactArgs(1), nil), "", (*pipeline.Pipeline).Release, (*project).addSourceFlags, (*project).addLegacyFlag, (*project).addLeaseFlags)
}

// composite makes a command that runs several stages and ends in a verdict on each
// version.
func composite(cmd *cobra.Command, purpose doctor.Purpose, run func(*pipeline.Pipeline, context.Context) (*verdict.Verdict, error), more ...func(*project, *cobra.Command)) *cobra.Command {
	o := &project{}
	output := &cli.Output{}
	confirm := false
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if err := quietly(c, confirm); err != nil {
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
		purpose, run := purpose, run
		if purpose == "" && o.source != "" {
			unstaged, err := pipeline.Unstaged(ctx, train[0])
			if err != nil {
				return err
			}
			if unstaged {
				train[0].Report(ctx, "%s is not staged: it is built, signed and staged first", versions[0])
				purpose, run = doctor.Stage, func(p *pipeline.Pipeline, ctx context.Context) (*verdict.Verdict, error) {
					return pipeline.StageAndRelease(ctx, p)
				}
			}
		}
		if purpose == "" {
			if err := cli.Unused(c, "nothing is built here: the release is staged or public, or no source was found; leave the flag out", "source", "tag-signers", "legacy"); err != nil {
				return err
			}
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
	o.addFlags(cmd)
	o.addTokenFlags(cmd)
	o.addFeatureFlags(cmd)
	o.waivers.AddFlags(cmd)
	o.sources.AddFlags(cmd)
	for _, add := range more {
		add(o, cmd)
	}
	output.AddFlags(cmd)
	addMetricsFlag(cmd)
	cmd.Flags().BoolVar(&confirm, "confirm", false, "do it; without it, only print what would be done")
	return cmd
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
	if judged, is := errors.AsType[*verdict.NotAcceptedError](err); is {
		v = &judged.Verdict
	}
	if v == nil {
		return err
	}
	if printed := output.Write(w, *v); printed != nil {
		return printed
	}
	return cmp.Or(v.Err(), err)
}

func statusCommand() *cobra.Command {
	o := &project{}
	var output string
	cmd := newCommand("status", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
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
	})
	o.addFlags(cmd)
	o.feature.gate = newGate()
	addGatesFlag(cmd, o.feature.gate)
	cli.AddFormat(cmd, &output, "table or json", "table", "json")
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
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
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
