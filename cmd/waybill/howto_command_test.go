package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func channelOfCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "channel-of VERSION",
		Short:   "Print the channel that a version belongs to",
		GroupID: "check",
		Long:    "Print the channel that a version belongs to: stable, rc, beta or alpha.\n\n" + exit.Table("the channel was printed"),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := version.Parse(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), v.Channel())
			return err
		},
	}
}

// A command parses, calls one function and prints; docs/architecture.md shows the
// one above.
func Example_howToAddCommand() {
	cmd := root()
	cmd.AddCommand(channelOfCommand())
	cmd.SetArgs([]string{"channel-of", "v1.2.3-rc.1"})
	cmd.SetOut(os.Stdout)
	if err := cmd.Execute(); err != nil {
		fmt.Println(err)
	}
	// Output: rc
}
