// Command k8s-verify-release checks that a published release is complete:
// everything that its signed manifest lists is there, untampered and with its
// evidence, and nothing else.
package main

import (
	_ "embed"
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/gate/profile"
)

//go:embed help.txt
var help string

func main() {
	cli.FallbackRoots()
	os.Exit(exit.Run(command()))
}

func command() *cobra.Command {
	options := &cli.VerifyRelease{Profile: profile.Kubernetes}
	cmd := &cobra.Command{
		Use:   "k8s-verify-release VERSION|CHANNEL [FILE…]",
		Short: "Check that a release is complete, untampered, and has nothing extra",
		Long:  help + exit.Table(exit.Accepted),
		Example: `  k8s-verify-release v1.31.2
  k8s-verify-release stable-1.31 --output table --output junit=verdict.xml --output sarif=verdict.sarif
  k8s-verify-release v1.31.2 ./kubectl ./kubernetes-server-linux-amd64.tar.gz
  k8s-verify-release v0.1.0 --profile profile.yaml --platform linux/amd64 --require-level build=2
  k8s-verify-release v1.31.2 --place https://dl.k8s.io/=https://mirror.example.test/k8s/ --place registry.k8s.io=mirror.example.test/k8s
  k8s-verify-release v0.1.0 --profile profile.yaml --only files --print-sums > SHA256SUMS.verified
  k8s-verify-release v0.1.0 --profile profile.yaml --download ./v0.1.0
  k8s-verify-release v0.1.0 --profile profile.yaml --files ./v0.1.0 --only files --offline`,
		Args:    cobra.MinimumNArgs(1),
		Version: cli.About(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.Run(cmd, args, profile.Release)
		},
	}
	options.AddFlags(cmd)
	options.AddPartFlags(cmd)
	explain := cli.Explain()
	explain.Example = "  k8s-verify-release explain TAMPERED\n  k8s-verify-release explain"
	cmd.AddCommand(explain, cli.Man())
	cli.Complete(cmd)
	return cmd
}
