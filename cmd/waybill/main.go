// Command waybill builds, describes, signs, seals, promotes and verifies
// software releases.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func main() {
	if code, ok := checkout.Serve(); ok { // this process was started to run a step, and holds nothing
		os.Exit(code)
	}
	os.Exit(exit.Run(observed(root())))
}

// group makes a command that only holds others. Without one of them it is
// wrong use: a script must not take help for an answer.
func group(cmd cobra.Command) *cobra.Command {
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return verdict.Refuse(verdict.Usage, c.CommandPath(), "there is no command %q", args[0])
		}
		if formatOf(c) == "text" { // in lines of a log nobody reads a page
			c.SetOut(c.ErrOrStderr())
			_ = c.Help() // it only prints
		}
		return verdict.Refuse(verdict.Usage, c.CommandPath(), "name one of its commands")
	}
	return &cmd
}

func root() *cobra.Command {
	cmd := group(cobra.Command{
		Use:   "waybill",
		Short: "Make a release carry its proof, and check the whole of it",
		Long: `A waybill travels with goods: what they are, where they came from, how they were
sealed, every hand they passed. Waybill makes a software release carry that
proof, and lets anyone check the whole of it with one command.

` + exit.Table,
		Version: cli.BuildVersion(),
	})
	addLogFlag(cmd)
	cmd.AddGroup(
		&cobra.Group{ID: "release", Title: "Run a release:"},
		&cobra.Group{ID: "stage", Title: "One stage:"},
		&cobra.Group{ID: "check", Title: "Decide and check:"},
		&cobra.Group{ID: "carry", Title: "Carry:"},
		&cobra.Group{ID: "switch", Title: "Switch:"},
	)
	cmd.AddCommand(
		initCommand(), lockCommand(), planCommand(), stageCommand(), releaseCommand(), statusCommand(),
		buildCommand(), sbomCommand(), signCommand(), sealCommand(), promoteCommand(),
		gateCommand(), verifyCommand(), inspectCommand(), traceCommand(),
		policyCommand(), signoffCommand(), featureCommand(), trustCommand(), doctorCommand(), schemaCommand(),
	)
	return cmd
}
