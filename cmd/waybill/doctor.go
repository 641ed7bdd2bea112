package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// doctorOptions say what to check.
type doctorOptions struct {
	project
	purpose string
	output  string
	confirm bool
}

func doctorCommand() *cobra.Command {
	o := &doctorOptions{}
	cmd := &cobra.Command{
		Use:     "doctor [VERSION]",
		Short:   "Check that everything that a release needs is available",
		GroupID: "check",
		Long: `Check everything that a release needs, and list each item as ok, warn or bad with
what to do next: identity tokens, the clock, signing services, trust root and
policy, places, registry, disk, the isolation of steps, tools, source and lock.
Build and stage run the same checks before their first step.

Doctor writes to no place, registry or transparency log. A check that needs a write
is listed as not checked; with --confirm a small object is written to the place and
removed again, and an upload to the registry is started and cancelled. Without a
VERSION, the source and the places of the release are not checked.

EXIT STATUS
  0  no item is bad
  1  an item is bad
  2  wrong use, or an item is bad because of an error in a flag, a policy, a
     profile or a configuration
  3  every bad item is a service or place that did not answer
  4  a bug in this program`,
		Example: `  waybill doctor v0.1.0 --for stage --source ./lantern --profile profile.yaml \
    --identity-token builder=builder.token --identity-token release=release.token
  waybill doctor v0.1.0 --for release --profile profile.yaml --confirm
  waybill doctor v0.1.0 --for verify --profile profile.yaml --output json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.purpose, "for", string(doctor.Stage), "check what this needs: "+strings.Join(purposes(), ", "))
	f.StringVarP(&o.output, "output", "o", "table", "table or json")
	f.BoolVar(&o.confirm, "confirm", false, "also make the checks that need a write, and undo the write")
	return cmd
}

func purposes() []string {
	var names []string
	for _, p := range doctor.Purposes() {
		names = append(names, string(p))
	}
	return names
}

func (o *doctorOptions) run(cmd *cobra.Command, args []string) error {
	if !slices.Contains(purposes(), o.purpose) {
		return verdict.Refuse(verdict.Usage, "--for", "%q: want one of %s", o.purpose, strings.Join(purposes(), ", "))
	}
	versions, err := cli.Versions(args)
	if err != nil {
		return err
	}
	by, unloaded := o.gate(cmd.Context())
	c, ctx, err := o.config(cmd, by)
	if err != nil {
		return err
	}
	c.Version = append(versions, version.Version{})[0]
	report := doctor.Report{}
	if unloaded != nil {
		report = pipeline.ExamineMachine(ctx, doctor.Purpose(o.purpose), c, unloaded)
	} else if p, err := pipeline.New(c); err != nil {
		return err
	} else {
		report = p.Examine(ctx, doctor.Purpose(o.purpose), o.confirm)
	}
	if err := printReport(cmd.OutOrStdout(), o.output, report); err != nil {
		return err
	}
	return report.Err()
}

func printReport(w io.Writer, output string, r doctor.Report) error {
	switch output {
	case "json":
		return printJSON(w, r)
	case "table":
		return r.Write(w)
	}
	return verdict.Refuse(verdict.Usage, "--output", "%q: want table or json", output)
}
