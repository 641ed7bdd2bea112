package main

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
)

func policyCommand() *cobra.Command {
	cmd := group(cobra.Command{
		Use:     "policy",
		Short:   "Read, rehearse and sign what is asked of a release",
		GroupID: "check",
		Long: `A policy says who may sign what, which builders are believed how far, and what
evidence each artifact needs. These commands say what a policy asks, rehearse
it, and sign what its officer has to say.

` + exit.Table,
	})
	cmd.AddCommand(policyLintCommand(), policyExplainCommand(), policyTestCommand(), policySignCommand(), policyExceptCommand())
	return cmd
}
