package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
)

// stageVerb makes the command of one stage: they differ in words and in the
// one call.
func stageVerb(cmd cobra.Command, run func(context.Context, *pipeline.Pipeline) error, more ...func(*project, *cobra.Command)) *cobra.Command {
	o := &project{}
	cmd.GroupID, cmd.Args = "stage", cobra.ExactArgs(1)
	cmd.Long += "\n\n" + exit.Table
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
tree of that commit, isolated where the machine allows, and hash its declared
outputs. The builder identity signs the provenance of each step before any of
its outputs leaves it. Finished steps are taken over if everything still holds.
Building asks for no --confirm: the provenance is signed as part of it, with a
log entry for each step, and waybill stage without --confirm foretells how many.

A step may last longer than a token. The file of a token is read again for each
certificate; if the token in it has run out when a step ends, what the step made
is kept where it is and the file is watched for a fresh one, for as long as
--patience says. Nothing leaves the step before its provenance is signed, so a
build that is given up, or killed, runs that step again.

What the build needs is looked at before its first step, as waybill doctor --for
build does; everything that is wrong stops it at once. Several versions are
several releases, each in a directory of its own below --state; all are planned
and looked at before the first step of any, and if one fails, those after it are
not begun.

` + exit.Table,
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
		Long: `Write SHA256SUMS and SHA512SUMS, and sign every planned file and image that has
no signature yet, keyless. Only what verified provenance vouches for is signed;
a file that the plan does not know stops it before anything is signed. Each
signature is verified before it is kept. Signing adds entries to the
transparency log of the signing services, which is for ever.

Without --confirm nothing is signed and nothing is written: it prints what would
be signed, as whom and with which services, how many certificates, timestamps
and log entries that takes, what is signed already, and what stands against it.
A token that is given is read and compared with the policy; no signing service
is asked.

A file that cannot be signed does not keep the others from it: each that failed
is listed with the reason and the next act. A service that is away is waited
for, as long as --patience says. Run it again after an interruption: what is
signed stays, and what was begun is finished with the same bytes.

--legacy signs all of it in the forms from before bundles, too, for users of
older clients: FILE.sig and FILE.cert beside each signed file, listed in the
manifest, and the tags sha256-DIGEST.sig and .att beside each image and each of
its platforms. The release keeps them: later commands need no flag. Those
signatures stand in a Rekor v1 log, which the signing config must name
(LEGACY_NEEDS_REKOR_V1), and are verified as they were written. A --key signs in
no legacy form: what such clients find beside a file is a certificate, and a
policy's key has none. Of an image with both forms cosign 2.6 takes the bundle,
for which it needs --use-signed-timestamps.

` + exit.Table,
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
				return s.foretell(c, f, err)
			}
			return s.done(c, p, p.Sign(ctx))
		},
	}
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	o.addLegacyFlag(cmd)
	o.addFeatureFlags(cmd)
	s.addFlags(cmd, "really sign")
	return cmd
}
