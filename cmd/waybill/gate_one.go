package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// onePolicy are the options of a question to a policy about a single artifact.
type onePolicy struct {
	policy  string
	stage   string
	version string
	commit  string
	defects string
	vouched bool
	sources cli.Sources
	trust   cli.Trust
	log     cli.Log
	output  cli.Output
}

// oneArtifact are the options of gate file and gate image.
type oneArtifact struct {
	onePolicy
	feature featureFlags
}

func (o *oneArtifact) addFlags(cmd *cobra.Command) {
	o.addQuestion(cmd)
	o.feature.addSiteFlags(cmd)
	cmd.Flags().StringVar(&o.defects, "known-defects", "", "list of known defects: a bundle signed by the policy officer, or unsigned YAML, which explains findings but cannot set them aside")
	cmd.Flags().BoolVar(&o.vouched, "accept-vsa", false, "accept a verifier's summary (VSA) that satisfies the policy's summaries instead of provenance; the verdict names it")
	o.sources.AddFlags(cmd)
	o.trust.AddChoice(cmd)
	o.trust.AddFlags(cmd)
	o.output.AddFlags(cmd)
	o.output.AddReport(cmd)
}

func (o *onePolicy) addQuestion(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.policy, "policy", "", "policy to decide by (required, except for a promoter's manifests)")
	f.StringVar(&o.stage, "stage", string(policy.Staging), "stage to judge for: staging or release")
	f.StringVar(&o.version, "release-version", "", "version of the release, for a policy that compares build parameters with it")
	f.StringVar(&o.commit, "commit", "", "commit that provenance must name")
}

func (o *onePolicy) request(cmd *cobra.Command) (req gate.PolicyRequest, err error) {
	if o.policy == "" {
		return req, verdict.Refuse(verdict.Usage, "--policy", "required: the policy to decide by")
	}
	if req.Stage = policy.Stage(o.stage); req.Stage != policy.Staging && req.Stage != policy.Published {
		return req, verdict.Refuse(verdict.Usage, "--stage", "%q: want staging or release", o.stage)
	}
	if req.Policy, err = readPolicy(o.policy); err == nil && o.vouched {
		req.Policy, err = req.Policy.Vouching()
	}
	if err != nil {
		return req, err
	}
	root, err := o.trust.ToJudge(cmd.Context())
	if err != nil {
		return req, err
	}
	req.Version, req.Commit, req.Now = o.version, o.commit, root.Now
	if req.Finder, err = o.log.Finder(o.trust.Offline); err != nil {
		return req, err
	}
	if req.Verifier, err = verify.NewWith(root.Root, req.Policy.Verification()); err != nil {
		return req, err
	}
	if err = req.AddSources(o.sources.Summaries, o.sources.Declarations); err != nil || o.defects == "" {
		return req, err
	}
	list, err := profile.ReadDefects(o.defects, root.Root, req.Policy)
	req.Waivers.Lists = append(req.Waivers.Lists, list)
	return req, err
}

// effective makes the request with the requirements that the features of a site
// enforce. The destination of the artifact is unknown, so each requirement counts
// as at the strictest destination.
func (o *oneArtifact) effective(cmd *cobra.Command) (gate.PolicyRequest, error) {
	req, err := o.request(cmd)
	if err != nil {
		return gate.PolicyRequest{}, err
	}
	switches, err := o.feature.switches(cmd.Context(), req.Policy, req.Verifier)
	if err == nil {
		req.Policy, err = gate.Effective(switches, req.Policy)
	}
	return req, err
}

func (o *oneArtifact) answer(cmd *cobra.Command, v *verdict.Verdict) error {
	if err := o.output.Write(cmd.OutOrStdout(), *v); err != nil {
		return err
	}
	return v.Err()
}

func gateFileCommand() *cobra.Command {
	o := &oneArtifact{}
	var f gate.JudgedFile
	var class string
	cmd := newCommand("gate_file", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		named, err := judgedFile(args[0], class)
		if err != nil {
			return err
		}
		if f.Path, f.Class = named.Path, named.Class; f.Name == "" {
			f.Name = named.Name
		}
		req, err := o.effective(cmd)
		if err != nil {
			return err
		}
		return o.answer(cmd, req.File(cmd.Context(), f))
	})
	o.addFlags(cmd)
	cmd.Flags().StringVar(&f.Name, "name", "", "name of the artifact in the release, which the evidence must name (default: the name of the file)")
	cmd.Flags().StringVar(&class, "class", string(plan.Binary), "class of the file: "+strings.Join(fileClasses(), ", "))
	cmd.Flags().StringArrayVar(&f.Bundles, "bundle", nil, "file with a signature or an attestation; repeats (default FILE"+gate.BundleSuffix+")")
	cmd.Flags().StringVar(&f.SBOM, "sbom", "", "SPDX document of the file")
	return cmd
}

// judgedFile is a file of a class, named by the last element of its path.
func judgedFile(path, class string) (gate.JudgedFile, error) {
	if !slices.Contains(fileClasses(), class) {
		return gate.JudgedFile{}, verdict.Refuse(verdict.Usage, "--class", "%q: want one of %s", class, strings.Join(fileClasses(), ", "))
	}
	return gate.JudgedFile{Path: path, Name: filepath.Base(path), Class: plan.Class(class)}, nil
}

func fileClasses() []string {
	return []string{string(plan.Binary), string(plan.Archive), string(plan.Other), string(plan.Sums), string(plan.SBOM)}
}

func gateImageCommand() *cobra.Command {
	o := &oneArtifact{}
	cmd := newCommand("gate_image", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		req, err := o.effective(cmd)
		if err != nil {
			return err
		}
		image, err := cli.Image(args[0], cli.Transport(false))
		if err != nil {
			return err
		}
		return o.answer(cmd, req.Image(cmd.Context(), image))
	})
	o.addFlags(cmd)
	o.log.AddFlags(cmd)
	return cmd
}
