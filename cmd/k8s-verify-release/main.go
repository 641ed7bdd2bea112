// Command k8s-verify-release checks that a published release is complete:
// everything that its signed manifest lists is there, untampered and with its
// evidence, and nothing else.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/gate/profile"
)

func main() {
	cli.FallbackRoots()
	os.Exit(exit.Run(command()))
}

func command() *cobra.Command {
	options := &cli.VerifyRelease{Profile: profile.Kubernetes}
	cmd := &cobra.Command{
		Use:   "k8s-verify-release VERSION|CHANNEL [FILE…]",
		Short: "Check that a release is complete, untampered, and has nothing extra",
		Long: `Verify a whole release where it was published.

The signed manifest of a release lists everything that belongs to it. This command
verifies the manifest, lists and hashes everything in the places of the release, and
checks the provenance, signature and SBOM of every artifact and image against the
policy that the profile names. Every problem is listed, with a reason code and what
to do next.

Without --profile it verifies a Kubernetes release at its public addresses, as
published today, by a built-in policy. Such a release has no manifest. Its signed
SBOM, kubernetes-release.spdx, binds digests to names and to the version: it is read
first, and nothing is accepted without it. Which other files belong to the release
is derived from its unsigned documents, which are no evidence. You can verify or
download a part of the release; FILEs that you have are compared with the SBOM and
with the signatures that are published beside them.

Only a whole release with all its evidence is called complete. With FILEs, --only,
--platform or a smaller --depth the verdict is partial, and lists what was not
checked. This program does not look into artifacts; for that use waybill verify
release --depth full.

FILEs are compared with the manifest by name and by digest. The verdict gives their
names in the release; their evidence is read from the release.

To verify a mirror, use --place: content of one address is read from another, and
the verdict names both. A web server cannot be listed, so extra files cannot be
detected: if the policy requires that, nothing is decided (NOT_LISTABLE). --listing,
or the profile, names a bucket that lists the same files. Buckets are read without
credentials; waybill verify release uses those of the environment.

A channel (latest, stable, stable-1, stable-1.31) is the release that the channel index of the
profile names. The highest index number seen is stored, and a lower one is refused.
A profile may name version markers instead, which are unsigned: the verdict then
says that rollback was not checked.

--accept-vsa accepts a verifier's summary that satisfies the policy's summaries
instead of provenance. It never replaces hashing or listing; the verdict names it
and is partial.

--output can be repeated: a table to read and a file for CI in one run. The file is
written for every verdict. k8s-verify-release explain CODE explains a reason code.

` + exit.Table(exit.Accepted),
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
	cmd.AddCommand(explain)
	return cmd
}
