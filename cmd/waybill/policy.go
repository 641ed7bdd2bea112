package main

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
)

func policyCommand() *cobra.Command {
	cmd := group(cobra.Command{
		Use:     "policy",
		Short:   "Explain, test and sign the policy of a release",
		GroupID: "check",
		Long: `A policy says who may sign what, up to which level each builder is trusted, and
which evidence each artifact needs. These commands explain and test a policy, and
sign policies, lists of known defects and exceptions as the policy officer.

` + exit.Table("success"),
	})
	cmd.AddCommand(policyLintCommand(), policyExplainCommand(), policyTestCommand(), policySignCommand(), policyExceptCommand())
	return cmd
}
