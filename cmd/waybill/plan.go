package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/verdict"
)

func planCommand() *cobra.Command {
	o := &project{}
	var output string
	cmd := &cobra.Command{
		Use:     "plan VERSION",
		Short:   "Print exactly what a release will consist of",
		GroupID: "release",
		Long: `Read release.yaml from the commit that the tag names and print every artifact to
come: what the steps make, and every signature, SBOM, provenance and checksum
file about it. Nothing is built.

` + exit.Table,
		Example: `  waybill plan v0.1.0 --source ./lantern --profile profile.yaml
  waybill plan v0.1.0 --source git+https://example.test/lantern@v0.1.0 --profile profile.yaml --output json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, ctx, err := o.open(cmd, args)
			if err != nil {
				return err
			}
			planned, source, err := p.Plan(ctx)
			if err != nil {
				return err
			}
			return printPlan(cmd.OutOrStdout(), output, planned, source.Commit.Commit)
		},
	}
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func printPlan(w io.Writer, output string, p plan.Plan, commit string) error {
	switch output {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(p)
	case "table":
		fmt.Fprintf(w, "%s %s from %.12s: %d steps, %d artifacts\nplan %s\n\n", p.Name, p.Version, commit, len(p.Steps), len(p.Artifacts), p.Digest())
		t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(t, "ARTIFACT\tCLASS\tPLATFORM\tSTEP")
		for _, a := range p.Artifacts {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", a.Name, a.Class, a.Platform, a.Step)
		}
		return t.Flush()
	}
	return verdict.Refuse(verdict.Usage, "--output", "%q: want table or json", output)
}
