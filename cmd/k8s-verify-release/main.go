// Command k8s-verify-release checks that a published release is complete:
// everything there that its signed manifest lists, untampered, with its
// evidence, and nothing else.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/profile"
)

func main() { os.Exit(exit.Run(command())) }

func command() *cobra.Command {
	options := &cli.VerifyRelease{Profile: profile.Kubernetes}
	cmd := &cobra.Command{
		Use:   "k8s-verify-release VERSION",
		Short: "Is this whole release there, untampered, and nothing else?",
		Long: `Verify a whole release where it was published.

The release's signed manifest is the closed list of what belongs to it. This
command verifies the manifest, lists and hashes everything in the release's
places, and checks the provenance, signature and SBOM of every artifact and
image against the policy that the profile names. Everything wrong is listed,
each with a reason code and the next act.

Without --profile it asks about a release of Kubernetes at its public
addresses, by the policy that this program carries.

` + exit.Table,
		Example: `  k8s-verify-release v1.31.2
  k8s-verify-release v0.1.0 --profile profile.yaml
  k8s-verify-release v0.1.0 --profile profile.yaml --output json
  k8s-verify-release v0.1.0 --profile profile.yaml --files ./mirror/v0.1.0`,
		Args:    cobra.ExactArgs(1),
		Version: cli.BuildVersion(),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := cli.Version(args)
			if err != nil {
				return err
			}
			return options.Run(cmd, v, profile.Release)
		},
	}
	options.AddFlags(cmd)
	return cmd
}
