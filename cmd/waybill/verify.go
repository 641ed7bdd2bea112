package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/slice"
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
	cmd.Long += help("verify_identity") + exit.Table(exit.Accepted)
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if err := o.ask.Check(&o.trust); err != nil {
			return err
		}
		logless := cli.Unused(c, "the trust domain has no logs, so no log is required; leave the flag out", "min-logs", "min-scts")
		if o.trust.Domain != "" && logless != nil { // before anything is fetched
			return logless
		}
		believed, err := o.trust.ToJudge(c.Context())
		if err == nil && believed.Root.IsLogless() {
			err = logless
		}
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
	cmd := o.command(*newCommand("verify_file", cobra.MinimumNArgs(1), nil), func(cmd *cobra.Command, ask gate.Ask, at time.Time, args []string) (*verdict.Verdict, error) {
		finder, err := log.Finder(o.trust.Offline)
		if err != nil {
			return nil, err
		}
		if signature+certificate != "" && len(args) > 1 {
			return nil, verdict.Refuse(verdict.Usage, "--signature", "a signature is for one file; name one FILE")
		}
		files := slice.Map(args, func(path string) gate.File {
			return gate.File{Path: path, Bundle: bundle, Signature: signature, Certificate: certificate}
		})
		return gate.Files(cmd.Context(), gate.FileRequest{Ask: ask, Now: at, Finder: finder, Files: files}), nil
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
	cmd := o.command(*newCommand("verify_bundle", cobra.RangeArgs(1, 2), nil), func(cmd *cobra.Command, ask gate.Ask, at time.Time, args []string) (*verdict.Verdict, error) {
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
	var platform, children string
	var log cli.Log
	cmd := o.command(*newCommand("verify_image", cobra.MinimumNArgs(1), nil), func(cmd *cobra.Command, ask gate.Ask, at time.Time, args []string) (*verdict.Verdict, error) {
		finder, err := log.Finder(o.trust.Offline)
		if err != nil {
			return nil, err
		}
		if children != "index" && children != "own" {
			return nil, verdict.Refuse(verdict.Usage, "--children", "%q: want index or own", children)
		}
		req := gate.ImageRequest{Ask: ask, Platform: platform, ByIndex: children == "index", Now: at, Finder: finder}
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
	cmd.Flags().StringVar(&platform, "platform", "", "judge this platform only, as linux/amd64; the verdict is then partial")
	cmd.Flags().StringVar(&children, "children", "index", "whose evidence counts for a platform: index, also that of the index that lists it; or own")
	log.AddFlags(cmd)
	return cmd
}
