package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// single are the options of the commands that verify single artifacts.
type single struct {
	ask    cli.Ask
	output cli.Output
	trust  cli.Trust
}

// command adds the shared help and flags to a command that prints the verdict of
// run.
func (o *single) command(cmd cobra.Command, run func(cmd *cobra.Command, ask gate.Ask, at time.Time, args []string) (*verdict.Verdict, error)) *cobra.Command {
	cmd.Long += `

You must specify who is expected to have signed: an identity with its issuer, or a
key. Evidence of any other signer is ignored. The trust root is the file of
--trusted-root; with --offline, the one that is built into this program; otherwise
that of Sigstore's public-good instance, or of the repository that waybill trust
init named. It is updated through TUF once a day; if that is due and the repository
does not answer, nothing is decided.

` + exit.Table(exit.Accepted)
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if err := o.output.Check(); err != nil {
			return err
		}
		if err := o.ask.Check(); err != nil {
			return err
		}
		believed, err := o.trust.ToJudge(c.Context())
		if err != nil {
			return err
		}
		ask, err := o.ask.Ask(believed.Root)
		if err != nil {
			return err
		}
		if err := o.reports(ask); err != nil {
			return err
		}
		v, err := run(c, ask, believed.Now, args)
		if cause := context.Cause(c.Context()); cause != nil {
			return cause
		}
		if v != nil {
			adviseKind(v.Findings, ask)
		}
		return answer(c, &o.output, v, err)
	}
	o.ask.AddFlags(&cmd)
	o.output.AddFlags(&cmd)
	o.output.AddReport(&cmd)
	o.trust.AddFlags(&cmd)
	o.trust.AddChoice(&cmd)
	return &cmd
}

// adviseKind names the flag that decides which kind of evidence is required.
func adviseKind(findings []verdict.Finding, ask gate.Ask) {
	act := "add --type TYPE to require an attestation, or name the bundle of a signature"
	if ask.Type != "" {
		act = "leave out --type to require a signature, or name the bundle of an attestation"
	}
	for i, f := range findings {
		if f.Code == verdict.MaterialKind && f.Fix == f.Code.Fix() {
			findings[i].Fix = act + "; --key is for what a key signed, --certificate-identity for certificates"
		}
	}
}

// reports refuses a report of levels that the question does not compute.
func (o *single) reports(ask gate.Ask) error {
	switch {
	case o.output.Report == "":
	case !ask.Provenance():
		return verdict.Refuse(verdict.Usage, "--report", "levels are read from provenance; add --type slsaprovenance1, or the older type that the evidence has")
	case o.output.Report == string(render.SLSASource) && len(ask.Levels.Sources) == 0:
		return verdict.Refuse(verdict.Usage, "--report", "no summary of the source was given, so its level is unknown; add --source-vsa")
	}
	return nil
}

func verifyFileCommand() *cobra.Command {
	o := &single{}
	var bundle, signature, certificate string
	var log cli.Log
	cmd := o.command(cobra.Command{
		Use:   "file FILE…",
		Short: "Verify that an identity or key signed these files",
		Long: `Verify each file with the Sigstore bundle beside it (FILE` + gate.BundleSuffix + `), or
with that of --bundle. Without --type the bundle must be a signature over the file;
with --type, an attestation of that predicate type about the file's digest and, with
--subject, with exactly that name.

Provenance is also checked against SLSA, requirement by requirement. A builder's
claims about itself do not count: --builder names the builders that the signer may
sign for, and up to which level; any other builder gets at most level 1 of the Build
track. --source-vsa gives a verification summary of the source revision, with who
must have signed it and for which verifier. --require-level refuses a lower level.

A legacy signature, from before Sigstore bundles, is read from --signature and
--certificate. They do not contain the signing time, so a log must confirm it:
--rekor-url searches one, and --evidence caches its answers for the next run.`,
		Example: `  waybill verify file lantern --trusted-root trusted_root.json \
    --certificate-identity release@example.test --certificate-oidc-issuer https://accounts.example.test
  waybill verify file lantern --type slsaprovenance1 --bundle lantern.provenance.json --key builder.pub --trusted-root trusted_root.json \
    --builder https://builder.example.test/hosted@v1=3 --require-level build=3
  waybill verify file lantern --signature lantern.sig --certificate lantern.cert --trusted-root trusted_root.json \
    --certificate-identity release@example.test --certificate-oidc-issuer https://accounts.example.test \
    --rekor-url https://rekor.example.test --evidence evidence`,
		Args: cobra.MinimumNArgs(1),
	}, func(cmd *cobra.Command, ask gate.Ask, at time.Time, args []string) (*verdict.Verdict, error) {
		finder, err := log.Finder(o.trust.Offline)
		if err != nil {
			return nil, err
		}
		if signature+certificate != "" && len(args) > 1 {
			return nil, verdict.Refuse(verdict.Usage, "--signature", "a signature is for one file; name one FILE")
		}
		req := gate.FileRequest{Ask: ask, Now: at, Finder: finder}
		for _, path := range args {
			req.Files = append(req.Files, gate.File{Path: path, Bundle: bundle, Signature: signature, Certificate: certificate})
		}
		return gate.Files(cmd.Context(), req), nil
	})
	cmd.Flags().StringVar(&bundle, "bundle", "", "bundle to use for every FILE, instead of FILE"+gate.BundleSuffix)
	cmd.Flags().StringVar(&signature, "signature", "", "detached signature of FILE (base64), instead of a bundle")
	cmd.Flags().StringVar(&certificate, "certificate", "", "certificate of the detached signature (PEM, or base64 of it)")
	log.AddFlags(cmd)
	return cmd
}

func verifyBundleCommand() *cobra.Command {
	o := &single{}
	var sum string
	cmd := o.command(cobra.Command{
		Use:   "bundle BUNDLE [FILE]",
		Short: "Verify a bundle for a file, or for a digest",
		Long: `Verify one Sigstore bundle for a file, or for a digest if you do not have the file.
Without --type it must be a signature over those bytes; with --type, an attestation
of that predicate type about them.`,
		Example: `  waybill verify bundle lantern.sigstore.json lantern --key release.pub --trusted-root trusted_root.json
  waybill verify bundle lantern.sigstore.json --digest sha256:9f86d081… --trusted-root trusted_root.json \
    --certificate-identity release@example.test --certificate-oidc-issuer https://accounts.example.test`,
		Args: cobra.RangeArgs(1, 2),
	}, func(cmd *cobra.Command, ask gate.Ask, at time.Time, args []string) (*verdict.Verdict, error) {
		file := gate.File{Bundle: args[0]}
		if len(args) == 2 {
			file.Path = args[1]
		}
		if sum != "" {
			var err error
			if file.Digest, err = digest.Parse(sum); err != nil {
				return nil, verdict.Wrap(verdict.Usage, "--digest", err)
			}
		}
		return gate.Files(cmd.Context(), gate.FileRequest{Files: []gate.File{file}, Ask: ask, Now: at}), nil
	})
	cmd.Flags().StringVar(&sum, "digest", "", "digest of the artifact, instead of FILE: sha256:… or sha512:…")
	return cmd
}

func verifyImageCommand() *cobra.Command {
	o := &single{}
	var platform string
	var log cli.Log
	cmd := o.command(cobra.Command{
		Use:   "image REF…",
		Short: "Verify that an identity or key signed an image and every platform of it",
		Long: `Resolve each reference once, to a digest, and look among the Sigstore bundles that
refer to it for cosign's image signature, or for an attestation of --type. The index
and every platform in it need evidence of their own. Evidence that others attached
to the image is counted and noted, and never causes a refusal. If nothing refers to
the image, the tags sha256-….sig and .att of older clients are read.`,
		Example: `  waybill verify image registry.example.test/lantern:v0.1.0 --trusted-root trusted_root.json \
    --certificate-identity release@example.test --certificate-oidc-issuer https://accounts.example.test
  waybill verify image registry.example.test/lantern@sha256:9f86d081… --platform linux/amd64 --key release.pub --trusted-root trusted_root.json`,
		Args: cobra.MinimumNArgs(1),
	}, func(cmd *cobra.Command, ask gate.Ask, at time.Time, args []string) (*verdict.Verdict, error) {
		finder, err := log.Finder(o.trust.Offline)
		if err != nil {
			return nil, err
		}
		req := gate.ImageRequest{Ask: ask, Platform: platform, Now: at, Finder: finder}
		t := cli.Transport(false)
		for _, reference := range args {
			image, err := cli.Image(reference, t)
			if err != nil {
				return nil, err
			}
			req.Images = append(req.Images, image)
		}
		return gate.Images(cmd.Context(), req), nil
	})
	cmd.Flags().StringVar(&platform, "platform", "", "judge the index and this platform only, as linux/amd64; the verdict is then partial")
	log.AddFlags(cmd)
	return cmd
}
