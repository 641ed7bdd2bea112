// Command k8s-verify-release checks that a published release is complete:
// everything there that its signed manifest lists, untampered, with its
// evidence, and nothing else.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/gate/profile"
)

func main() { os.Exit(exit.Run(command())) }

func command() *cobra.Command {
	options := &cli.VerifyRelease{Profile: profile.Kubernetes}
	cmd := &cobra.Command{
		Use:   "k8s-verify-release VERSION|CHANNEL [FILE…]",
		Short: "Is this whole release there, untampered, and nothing else?",
		Long: `Verify a whole release where it was published.

The release's signed manifest is the closed list of what belongs to it. This
command verifies the manifest, lists and hashes everything in the release's
places, and checks the provenance, signature and SBOM of every artifact and
image against the policy that the profile names. Everything wrong is listed,
each with a reason code and the next act.

Without --profile it asks about a release of Kubernetes at its public
addresses, as it is published today, by the policy that this program carries.
Such a release has no manifest. Its SBOM, kubernetes-release.spdx, is signed, and
says which bytes have which name in which version: it is read first, and nothing
is accepted without it. What else belongs to the release is worked out from the
documents that speak of it, which prove nothing by themselves. A part of it can
be asked about or downloaded, and FILEs that you have are held against the SBOM
and against the signatures that lie beside them there.

Only the whole release, with all its evidence, is called complete. With FILEs,
--only, --platform or a smaller --depth the verdict is partial, and says without
what. This program does not look into artifacts: waybill verify release does,
with --depth full.
FILEs are held against the manifest by name and by bytes; what they are called
in the release is said, and their evidence is read where the release is.

A mirror is held against the places that the manifest names: with --place, what
belongs at one address is read at another, and the verdict names both. A web
server lists nothing, so that nobody can say what is there too much: where the
policy asks that, nothing is decided (NOT_LISTABLE). --listing, or the profile,
names a bucket that lists the same files. Buckets are read without credentials;
waybill verify release has those of the environment.

latest, stable or stable-1.31 is the release that the channel index of the
profile names. The highest index seen is remembered, and an older one refused.
A profile may name markers instead, which nobody signs: the verdict then says
that rollback was not checked.

--accept-vsa takes the word of a verifier for how things were built: a summary
that counts by the policy's summaries stands in the place of provenance. It
never stands for hashing or listing, and the verdict names it and is partial.

--output repeats: a table for the eyes and a file for CI in one run. A file is
written whole, whatever the verdict is.

` + exit.Table,
		Example: `  k8s-verify-release v1.31.2
  k8s-verify-release stable-1.31 --output table --output junit=verdict.xml --output sarif=verdict.sarif
  k8s-verify-release v1.31.2 ./kubectl ./kubernetes-server-linux-amd64.tar.gz
  k8s-verify-release v0.1.0 --profile profile.yaml --platform linux/amd64 --require-level build=2
  k8s-verify-release v1.31.2 --place https://dl.k8s.io/=https://mirror.example.test/k8s/ --place registry.k8s.io=mirror.example.test/k8s
  k8s-verify-release v0.1.0 --profile profile.yaml --only files --print-sums > SHA256SUMS.verified
  k8s-verify-release v0.1.0 --profile profile.yaml --download ./v0.1.0
  k8s-verify-release v0.1.0 --profile profile.yaml --files ./v0.1.0 --only files --offline`,
		Args:    cobra.MinimumNArgs(1),
		Version: cli.BuildVersion(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.Run(cmd, args, profile.Release)
		},
	}
	options.AddFlags(cmd)
	options.AddPartFlags(cmd)
	return cmd
}
