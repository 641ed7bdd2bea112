// Command waybill builds, describes, signs, seals, promotes and verifies
// software releases.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
)

func main() { os.Exit(exit.Run(root())) }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "waybill",
		Short: "Make a release carry its proof, and check the whole of it",
		Long: `A waybill travels with goods: what they are, where they came from, how they were
sealed, every hand they passed. Waybill makes a software release carry that
proof, and lets anyone check the whole of it with one command.

` + exit.Table,
		Version: cli.BuildVersion(),
	}
	cmd.AddGroup(
		&cobra.Group{ID: "release", Title: "Run a release:"},
		&cobra.Group{ID: "stage", Title: "One stage:"},
		&cobra.Group{ID: "check", Title: "Decide and check:"},
		&cobra.Group{ID: "carry", Title: "Carry:"},
	)
	cmd.AddCommand(
		planCommand(), stageCommand(), releaseCommand(), statusCommand(),
		buildCommand(), sbomCommand(), signCommand(), sealCommand(), promoteCommand(),
		gateCommand(), verifyCommand(), inspectCommand(),
		trustCommand(),
	)
	return cmd
}
