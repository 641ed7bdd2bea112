package main

import (
	"github.com/spf13/cobra"
)

func policyCommand() *cobra.Command {
	cmd := group(*newCommand("policy", nil, nil))
	cmd.AddCommand(policyLintCommand(), policyExplainCommand(), policyTestCommand(), policySignCommand(), policyExceptCommand())
	return cmd
}
