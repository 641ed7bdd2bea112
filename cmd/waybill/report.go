package main

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func reportCommand() *cobra.Command {
	output := &cli.Output{Saved: true}
	cmd := &cobra.Command{
		Use:     "report FILE",
		Short:   "Print a saved verdict again, or every requirement of its SLSA levels",
		GroupID: "check",
		Long: `Print a verdict that --output json=FILE saved, in any format. --report answers every
requirement of the SLSA levels: kep-3027 (the levels of SLSA v0.1, by which KEP-3027
counts), slsa-build or slsa-source. Nothing is verified: anybody can write such a
file, and the evidence may have changed since. The text says when the verdict was
made; to decide, run the verification again.

The exit status is that of the saved verdict. A file that is no verdict of this
version, or that contradicts itself, is malformed.

` + exit.Table("the saved verdict accepted; nothing was verified now"),
		Example: `  waybill verify release v0.1.0 --profile profile.yaml --output json=verdict.json
  waybill report verdict.json --report kep-3027
  waybill report verdict.json --report kep-3027 --output html=kep-3027.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
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
		},
	}
	output.AddFlags(cmd)
	output.AddReport(cmd)
	return cmd
}
