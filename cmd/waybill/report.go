package main

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func reportCommand() *cobra.Command {
	output := &cli.Output{Saved: true}
	cmd := newCommand("report", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		raw, err := store.ReadNamed(args[0], render.MaxSaved)
		if err != nil {
			return err
		}
		v, err := render.Read(raw)
		if err != nil {
			return verdict.InFile(args[0], err)
		}
		if output.Report != "" {
			if _, err := render.View(output.Report).Of(v); err != nil {
				return err
			}
		}
		return answer(cmd, output, &v, nil)
	})
	output.AddFlags(cmd)
	output.AddReport(cmd)
	return cmd
}
