package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/vcs"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/version"
)

// VerifyRelease are the options of release verification, the same in waybill
// and in k8s-verify-release.
type VerifyRelease struct {
	// Profile is a file, or the name of the profile that is built in. What it
	// is before the flags are added is their default.
	Profile string
	// At is where to read instead of where the profile says.
	At      struct{ Files, Images string }
	Digests string
	// Depth is how far the artifacts are looked into.
	Depth  string
	Output Output
	// Source is a repository that the release is held against; empty asks none.
	Source string
	// Trust is asked where the profile names no trust root. Offline, nobody is
	// asked anything.
	Trust Trust
	// Rules reads the rules that a policy has of its own; the small verifier
	// has none and refuses such a policy.
	Rules policy.Compiler
	// Inside looks into artifacts; the small verifier can not.
	Inside  gate.Inside
	Waivers Waivers
	// Log is asked about signatures that do not say when they were made.
	Log Log

	unsealed *profile.Unsealed // as the profile says
}

// Depths of a verification.
const (
	depthEvidence = "provenance"
	depthFull     = "full"
)

// AddFlags adds the flags.
func (o *VerifyRelease) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Profile, "profile", o.Profile, "file that names places, policy and trust root; or one that is built in: kubernetes, as it is published today, without a manifest, or kubernetes-sealed, as it should be")
	f.StringVar(&o.At.Files, "files", "", "read the files here instead of where the profile says")
	f.StringVar(&o.At.Images, "images", "", "read the images here instead of where the profile says")
	f.StringVar(&o.Digests, "digests", "all", "all: every digest that the manifest lists; sha256: that one only, which makes the verdict partial")
	f.StringVar(&o.Depth, "depth", depthEvidence, "provenance: all evidence that manifest and policy ask for; full: besides, look into each artifact and hold its SBOM against what is in it")
	f.StringVar(&o.Source, "source", "", "repository to hold the release against: a path, git+file://, git+https:// or git+ssh://, with @REF if the tag is not the version. Every provenance must name its commit, and release.yaml and its lock must be that commit's")
	f.BoolVar(&o.Trust.Offline, "offline", false, "dial nothing: every place must be local, and a profile without a trust root is judged by the public-good copy that this program carries")
	o.Output.AddFlags(cmd)
	o.Trust.AddFlags(cmd)
	o.Waivers.AddFlags(cmd)
	o.Log.AddFlags(cmd)
}

// Run verifies a release where a stage keeps it, prints the verdict and
// returns it as an error unless it accepts.
func (o *VerifyRelease) Run(cmd *cobra.Command, v version.Version, stage profile.Stage) error {
	req, err := o.request(cmd.Context(), v, stage)
	if err != nil {
		return err
	}
	result, err := o.decide(cmd.Context(), req)
	if err != nil {
		return err
	}
	if err := context.Cause(cmd.Context()); err != nil {
		return err
	}
	if err := o.Output.Write(cmd.OutOrStdout(), *result); err != nil {
		return err
	}
	return result.Err()
}

func (o *VerifyRelease) request(ctx context.Context, v version.Version, stage profile.Stage) (gate.Request, error) {
	if err := o.check(); err != nil {
		return gate.Request{}, err
	}
	now, err := o.Trust.Moment.Time()
	if err != nil {
		return gate.Request{}, err
	}
	p, err := profile.Load(o.Profile, profile.Reader{Rules: o.Rules, Now: now, Trust: o.Trust.Reader(ctx)})
	if err != nil {
		return gate.Request{}, err
	}
	if err := o.Trust.Used(); err != nil {
		return gate.Request{}, err
	}
	o.unsealed = p.Unsealed
	req := gate.Request{Version: v, Policy: p.Policy, Stage: policy.Stage(stage), Now: now}
	if req.Verifier, err = verify.NewWith(p.TrustRoot, p.Policy.Verification()); err != nil {
		return gate.Request{}, err
	}
	if req.Waivers, err = o.Waivers.Read(req.Verifier, p); err != nil {
		return gate.Request{}, err
	}
	req.Canon.Files, req.Canon.Images = p.Canonical(v)
	req.Options.SHA256Only = o.Digests == "sha256"
	if o.Depth == depthFull {
		req.Options.Inside = o.Inside
	}
	req.Options.Checkout.Repository, req.Options.Checkout.Ref = vcs.Split(o.Source)
	if term.IsTerminal(int(os.Stderr.Fd())) {
		req.Options.Progress = ui.NewProgress(os.Stderr, "hashing").Update
	}
	return req, o.open(&req, p, stage)
}

func (o *VerifyRelease) check() error {
	if o.Profile == "" {
		return verdict.Refuse(verdict.Usage, "--profile", "required: it names the places, the policy and the trust root")
	}
	if o.Digests != "all" && o.Digests != "sha256" {
		return verdict.Refuse(verdict.Usage, "--digests", "%q: want all or sha256", o.Digests)
	}
	if o.Depth != depthEvidence && o.Depth != depthFull {
		return verdict.Refuse(verdict.Usage, "--depth", "%q: want provenance or full", o.Depth)
	}
	if o.Depth == depthFull && o.Inside == nil {
		return verdict.Refuse(verdict.Usage, "--depth", "this small program does not look into artifacts; waybill verify release does")
	}
	if repository, _ := vcs.Split(o.Source); o.Trust.Offline && vcs.IsRemote(repository) {
		return verdict.Refuse(verdict.Usage, "--source", "%q is elsewhere, and offline nobody is asked; name a local clone", repository)
	}
	return o.Output.Check()
}

// open opens the places of a stage, or those that the flags name instead.
func (o *VerifyRelease) open(req *gate.Request, p profile.Profile, stage profile.Stage) error {
	t := Transport(o.Trust.Offline)
	files, images := o.At.Files, o.At.Images
	var err error
	if files == "" {
		if files, err = p.Files(stage, req.Version); err != nil {
			return err
		}
	}
	if images == "" {
		if images, err = p.Images(stage, req.Version); err != nil {
			return err
		}
	}
	if req.Files, err = store.Open(files, t); err != nil {
		return verdict.Wrap(verdict.Usage, files, err)
	}
	if images == "" {
		return nil
	}
	if info, err := os.Stat(images); err == nil && info.IsDir() {
		req.Images, err = registry.OpenLayout(images)
		return err
	}
	req.Images, err = registry.OpenRemote(images, t)
	return err
}
