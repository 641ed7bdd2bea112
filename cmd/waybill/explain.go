package main

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
)

func explainCommand() *cobra.Command {
	cmd := cli.Explain()
	cmd.GroupID = "check"
	cmd.Example = "  waybill explain TAMPERED\n  waybill explain UNSIGNED --output json\n  waybill explain"
	return cmd
}
