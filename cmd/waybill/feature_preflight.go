package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

type preflighting struct {
	siteFlags
	to     string
	output cli.Output
}

func featurePreflightCommand() *cobra.Command {
	o := &preflighting{}
	cmd := newCommand("feature_preflight", cobra.MaximumNArgs(1), o.run)
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.to, "to", "", "version that is to be started, such as v0.3 (required)")
	o.output.AddFlags(cmd)
	return cmd
}

func (o *preflighting) run(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		o.file = args[0]
	}
	if o.to == "" {
		return verdict.Refuse(verdict.Usage, "--to", "required: the version that is to be started")
	}
	to, err := minorVersion("--to", o.to)
	if err != nil {
		return err
	}
	site, err := o.open()
	if err != nil {
		return err
	}
	v, err := config.Preflight(cmd.Context(), config.Move{
		Site: site.URI, Features: site.Features, Registry: known.Registry(), From: featureVersion(), To: to,
	}, time.Now())
	if err != nil {
		return err
	}
	if err := o.output.Write(cmd.OutOrStdout(), *v); err != nil {
		return err
	}
	return v.Err()
}
