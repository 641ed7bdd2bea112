package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// parameters are the values for the parameters that release.yaml declares.
type parameters struct{ given []string }

func (p *parameters) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&p.given, "parameter", nil, "NAME=VALUE: value of a parameter that release.yaml declares; repeats")
}

func (p *parameters) parse() (map[string]string, error) { return assignments("--parameter", p.given) }

// assignments reads NAME=VALUE, each name once.
func assignments(flag string, list []string) (map[string]string, error) {
	values := map[string]string{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := values[name]; !ok || name == "" || value == "" || twice {
			return nil, verdict.Refuse(verdict.Usage, flag, "%q: want NAME=VALUE, each name once", text)
		}
		values[name] = value
	}
	return values, nil
}

type planOptions struct {
	source, dir, profile, output string
	chosen                       parameters
}

func planCommand() *cobra.Command {
	o := &planOptions{}
	cmd := newCommand("plan", cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) })
	f := cmd.Flags()
	f.StringVar(&o.source, "source", "", "repository to plan from: a path, git+file://, git+https:// or git+ssh://, with @REF if the tag is not the version (default: this repository, if release.yaml is at its top)")
	f.StringVar(&o.dir, "dir", "", "directory to plan from instead of a repository, committed or not")
	f.StringVar(&o.profile, "profile", "", "also check that this profile loads")
	cli.AddFormat(cmd, &o.output, "table or json", "table", "json")
	o.chosen.addFlags(cmd)
	cmd.AddCommand(planDiffCommand())
	return cmd
}

func (o *planOptions) run(cmd *cobra.Command, args []string) error {
	versions := make([]version.Version, 0, len(args))
	for i := range args {
		v, err := cli.Version(args[i:])
		if err != nil {
			return err
		}
		versions = append(versions, v)
	}
	if o.profile != "" {
		if _, err := profile.Load(o.profile, profile.Reader{Rules: rules(), Now: time.Now(), Trust: (&cli.Trust{}).Reader(cmd.Context())}); err != nil {
			return err
		}
	}
	if o.source == "" && o.dir == "" {
		o.source = sourceHere()
	}
	if (o.source == "") == (o.dir == "") {
		return verdict.Refuse(verdict.Usage, "--source", "want exactly one of --source and --dir").
			Advise("give --dir DIRECTORY or --source REPOSITORY, or work in the repository; waybill init writes release.yaml")
	}
	chosen, err := o.chosen.parse()
	if err != nil {
		return err
	}
	var plans []plan.Plan
	for _, v := range versions {
		p, err := o.plan(cmd, v, chosen)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	releases, err := plan.NewReleases(plans...)
	if err != nil {
		return err
	}
	return printPlans(cmd.OutOrStdout(), o.output, releases)
}

func (o *planOptions) plan(cmd *cobra.Command, v version.Version, chosen map[string]string) (plan.Plan, error) {
	if o.dir != "" {
		return pipeline.ReadPlanIn(o.dir, v, chosen)
	}
	p, source, err := pipeline.ReadPlan(cmd.Context(), pipeline.ParseSource(o.source), v, chosen)
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s from commit %.12s\n", v, source.Commit.Commit)
	}
	return p, err
}

// printPlans prints one plan as itself and several as a list.
func printPlans(w io.Writer, output string, releases plan.Releases) error {
	switch {
	case output == "json" && len(releases) == 1:
		return render.WriteJSON(w, releases[0])
	case output == "json":
		return render.WriteJSON(w, releases)
	}
	for _, p := range releases {
		if err := p.Write(w); err != nil {
			return err
		}
	}
	if len(releases) > 1 {
		fmt.Fprintf(w, "\n%s, %s: %s\n", plural.Of(len(releases), "release"), plural.Of(releases.Count(), "artifact"), releases)
	}
	return nil
}

func planDiffCommand() *cobra.Command {
	var output, at string
	chosen := &parameters{}
	cmd := newCommand("plan_diff", cobra.ExactArgs(2), func(cmd *cobra.Command, args []string) error {
		values, err := chosen.parse()
		if err != nil {
			return err
		}
		var v version.Version
		if at != "" {
			if v, err = cli.Version([]string{at}); err != nil {
				return err
			}
		}
		var plans [2]plan.Plan
		for i, word := range args {
			if plans[i], err = pipeline.FindPlan(cmd.Context(), word, v, values); err != nil {
				return err
			}
		}
		return printDiff(cmd.OutOrStdout(), output, plan.Compare(plans[0], plans[1]))
	})
	cli.AddFormat(cmd, &output, "table or json", "table", "json")
	cmd.Flags().StringVar(&at, "version", "", "version to plan for, if the directory or the ref names none")
	chosen.addFlags(cmd)
	return cmd
}

func printDiff(w io.Writer, output string, d plan.Diff) error {
	if output == "json" {
		return errors.Join(render.WriteJSON(w, d), d.Err())
	}
	return errors.Join(d.Write(w), d.Err())
}
