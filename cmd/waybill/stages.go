package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
)

// stageVerb makes the command of one stage. The stages differ in their texts and in
// run. done says what status 0 means.
func stageVerb(cmd cobra.Command, done string, run func(context.Context, *pipeline.Pipeline) error, more ...func(*project, *cobra.Command)) *cobra.Command {
	o := &project{}
	cmd.GroupID, cmd.Args = "stage", cobra.ExactArgs(1)
	cmd.Long += "\n\n" + exit.Table(done)
	cmd.RunE = func(c *cobra.Command, args []string) error {
		p, ctx, err := o.open(c, args)
		if err != nil {
			return err
		}
		return answer(c, cli.TableOutput(), nil, run(ctx, p))
	}
	o.addFlags(&cmd)
	o.addSourceFlags(&cmd)
	o.addTokenFlags(&cmd)
	for _, add := range more {
		add(o, &cmd)
	}
	return &cmd
}

func buildCommand() *cobra.Command {
	o := &project{}
	cmd := &cobra.Command{
		Use:     "build VERSION…",
		Short:   "Run the steps of release.yaml and sign the provenance of each",
		GroupID: "stage",
		Long: `Read release.yaml from the commit that the tag names, run each step in a fresh
checkout of that commit, isolated where the machine allows it, and hash its declared
outputs. The builder identity signs the provenance of each step before any of its
outputs leaves the step. Finished steps are reused if nothing has changed. There is
no --confirm: building signs provenance, with a log entry for each step; waybill
stage without --confirm says how many.

A step may outlast a token. The token file is read again for each certificate. If
the token has expired when a step ends, the outputs are kept and the file is watched
for a new token, as long as --patience allows. No output leaves the step before its
provenance is signed, so a build that gives up, or is killed, runs that step again.

The needs of the build are checked before its first step, as by waybill doctor --for
build, and every problem is listed at once. Several versions are several releases,
each in its own directory below --state; all are planned and checked before the
first step of any, and if one fails, the later ones are not started.

` + exit.Table("every step was built, and its provenance signed"),
		Example: `  waybill build v0.1.0 --source ./lantern --profile profile.yaml --identity-token builder=builder.token`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			train, ctx, err := o.openAll(c, args)
			if err != nil {
				return err
			}
			err = train.Run(ctx, doctor.Build, func(ctx context.Context, _ int, p *pipeline.Pipeline) error { return p.Build(ctx) })
			return answer(c, cli.TableOutput(), nil, err)
		},
	}
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	o.addFeatureFlags(cmd)
	return cmd
}

func signCommand() *cobra.Command {
	o, s := &project{}, &ahead{}
	cmd := &cobra.Command{
		Use:     "sign VERSION",
		Short:   "Sign every planned file and image with the release identity",
		GroupID: "stage",
		Long: `Write SHA256SUMS and SHA512SUMS, and sign every planned file and image that is not
signed yet, keyless. Only artifacts with verified provenance are signed; a file that
is not in the plan stops it before anything is signed. Each signature is verified
before it is kept. Signing adds entries to the transparency log, which cannot be
removed.

Without --confirm nothing is signed or written. The command prints what it would
sign, with which identity and services, how many certificates, timestamps and log
entries that needs, what is signed already, and what would be refused. A given token
is read and compared with the policy; no signing service is contacted.

If a file cannot be signed, the others still are; each failure is listed with its
reason and what to do next. An unreachable service is retried as long as --patience
allows. Run it again after an interruption: existing signatures are kept, and one
that was begun is finished with the same bytes.

--legacy also signs in the forms from before Sigstore bundles, for older clients:
FILE.sig and FILE.cert beside each signed file, listed in the manifest, and the tags
sha256-DIGEST.sig and .att beside each image and each of its platforms. The release
records this, so later commands need no flag. These signatures need a Rekor v1 log
in the signing config (LEGACY_NEEDS_REKOR_V1), and are read back and verified. A
--key cannot sign in a legacy form, which consists of a signature and a certificate.
For an image with both forms cosign 2.6 uses the bundle, and needs
--use-signed-timestamps for it.

` + exit.Table("every planned file and image is signed;\nwithout --confirm: nothing prevents it, and the signatures were listed"),
		Example: `  waybill sign v0.1.0 --profile profile.yaml --identity-token release=release.token
  waybill sign v0.1.0 --profile profile.yaml --identity-token release=release.token --confirm
  waybill sign v0.1.0 --profile profile.yaml --identity release=ambient --output json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.check(); err != nil {
				return err
			}
			p, ctx, err := o.open(c, args)
			if err != nil {
				return err
			}
			if !s.confirm {
				f, err := p.ForecastActs(ctx, pipeline.ActSign)
				return s.printForecast(c, f, err)
			}
			return s.done(c, p, p.Sign(ctx))
		},
	}
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	o.addLegacyFlag(cmd)
	o.addFeatureFlags(cmd)
	s.addFlags(cmd, "sign; without it, only print what would be signed")
	return cmd
}
