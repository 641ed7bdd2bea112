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

// doctorOptions say what to examine, and how far.
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
		Short:   "Is everything there that a release needs?",
		GroupID: "check",
		Long: `Look at everything that a release needs, and list each thing as ok, warn or bad
with the next act: identity tokens, the clock, signing services, trust root and
policy, places, registry, disk, the walls around steps, tools, source and lock.
What build and stage look at before their first step is the same.

Nothing is made, and no log is written to. What only a write can tell is said to
be not asked; with --confirm a small object is written to the place and removed
again, and an upload to the registry is begun and cancelled. Without a VERSION
nothing is asked about its source and its places.

EXIT STATUS
  0  nothing is bad
  1  something is bad
  2  wrong use, or something bad that is to be written otherwise: a flag, a
     policy, a profile, a configuration
  3  all that is bad did not answer
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
	f.StringVar(&o.purpose, "for", string(doctor.Stage), "what it must be good for: "+strings.Join(purposes(), ", "))
	f.StringVarP(&o.output, "output", "o", "table", "table or json")
	f.BoolVar(&o.confirm, "confirm", false, "also ask what only a write can tell, and take it back")
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
