package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/download"
	"github.com/waybill-release/waybill/pkg/gate/latest"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// VerifyRelease are the options of release verification, the same in waybill
// and in k8s-verify-release.
type VerifyRelease struct {
	// Profile is a file, or the name of a built-in profile. Its value when the
	// flags are added is their default.
	Profile string
	// At reads from other places than the profile names.
	At      At
	Digests string
	// OpenPlace opens a place of files; nil is [store.Open], which uses no
	// credentials.
	OpenPlace func(uri string, rt http.RoundTripper) (store.Place, error)
	// Part is the part to verify, and Keep what to do with the verified files.
	Part   Part
	Keep   Keep
	Output Output
	// Expected is the file of the list of what a release without a manifest
	// should contain; empty for the embedded list.
	Expected string
	// Source is a repository to compare the release with; empty for none.
	Source string
	// Trust is used where the profile names no trust root. Offline, nothing is
	// requested.
	Trust Trust
	// Rules compiles the CEL rules of a policy. k8s-verify-release has no
	// compiler and refuses a policy with such rules.
	Rules policy.Compiler
	// Inside looks into artifacts; nil in k8s-verify-release, which cannot.
	Inside  gate.Inside
	Waivers Waivers
	// Switches read which requirements of a policy are enforced; nil where no
	// features switch them.
	Switches func(ctx context.Context, p policy.Policy, v *verify.Verifier) (gate.Switches, error)
	// Answer prints something else than the verdict of an accepted release. A
	// verdict that does not accept then goes to stderr.
	Answer func(w io.Writer, d gate.Decided) error
	// Log is searched for signatures that do not carry their signing time.
	Log Log
	// Kit is read instead of the places of the release.
	Kit Kit
	// Decide asks the gate; nil asks what is asked.
	Decide func(ctx context.Context, g gate.Gate, r gate.Request) (gate.Decided, error)

	unsealed *profile.Unsealed // from the profile; nil for a release with a manifest
}

// AddFlags adds the flags.
func (o *VerifyRelease) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Profile, "profile", o.Profile, "file that names places, policy and trust root; or a built-in profile: kubernetes (as published today, without a manifest) or kubernetes-sealed (with a manifest)")
	f.StringVar(&o.Source, "source", "", "repository to compare the release with: a path, git+file://, git+https:// or git+ssh://, with @REF if the tag is not the version. Every provenance must name its commit, and release.yaml and release.lock.yaml must be those of that commit")
	f.StringVar(&o.Expected, "expected", "", "list of what a release of Kubernetes without a manifest should contain, as waybill expect writes it, instead of the list in this program; with FILE.sigstore.json beside it, signed in the role policy, if the policy names that role")
	f.BoolVar(&o.Trust.Offline, "offline", false, "make no network connection: every place must be local, and a profile without a trust root uses the public-good one that is built into this program")
	o.At.AddFlags(cmd)
	o.Part.AddDepth(cmd)
	o.Output.AddFlags(cmd)
	o.Output.AddReport(cmd)
	o.Trust.AddFlags(cmd)
	o.Waivers.AddFlags(cmd)
	o.Log.AddFlags(cmd)
	o.Kit.addFlags(cmd)
}

// AddPartFlags adds the flags that verify a part of a release, and that keep
// verified files.
func (o *VerifyRelease) AddPartFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Digests, "digests", "sha256", "sha256: compare files by SHA-256 alone, which binds every byte; all: by every digest that the manifest lists (a policy can require this)")
	o.Part.AddFlags(cmd)
	o.Keep.AddFlags(cmd)
}

// Run verifies a release at the place of a stage, prints the verdict and returns
// it as an error unless it accepts. The first argument is a version or a channel;
// files on this machine may follow, to be judged instead of the whole release.
func (o *VerifyRelease) Run(cmd *cobra.Command, args []string, stage profile.Stage) error {
	if err := o.openKit(cmd); err != nil {
		return err
	}
	if err := o.check(args); err != nil {
		return err
	}
	if err := o.unused(cmd, args); err != nil {
		return err
	}
	progress := ui.NewProgress(Notes(cmd))
	defer progress.Ended("")
	progress.Says("reading the profile and the trust root")
	ask, err := o.prepare(cmd.Context(), args, stage)
	if err != nil {
		return err
	}
	if ask.into != nil {
		defer func() { _ = ask.into.Close() }() // the end of the process does it, too
	}
	if err := o.unusedUnder(cmd); err != nil {
		return err
	}
	log := Log{URL: o.Log.URL, Evidence: o.answers()}
	if ask.Options.Finder, err = log.Finder(o.Trust.Offline); err != nil {
		return err
	}
	progress.Says("reading the release at " + ask.Files.URI())
	ask.Options.Progress = func(p gate.Progress) { progress.Update("", p) }
	if o.Decide == nil {
		o.Decide = func(ctx context.Context, g gate.Gate, r gate.Request) (gate.Decided, error) { return g.Decide(ctx, r) }
	}
	decided, err := o.Decide(cmd.Context(), ask.gate, ask.Request)
	if err != nil {
		return err
	}
	if err := context.Cause(cmd.Context()); err != nil {
		return err
	}
	v := decided.Verdict
	ask.followed(v)
	for _, note := range ask.notes {
		v.Tell("%s.", strings.ToUpper(note[:1])+note[1:])
	}
	ask.finish(cmd.Context(), decided)
	progress.Ended("")
	out := cmd.OutOrStdout()
	if o.Answer != nil && v.Err() == nil {
		return o.Answer(out, decided)
	}
	if o.Keep.Sums || o.Answer != nil {
		out = cmd.ErrOrStderr()
	}
	if err := o.Output.Write(out, *v); err != nil {
		return err
	}
	if err := v.Err(); err != nil || !o.Keep.Sums {
		return err
	}
	for _, sum := range decided.Sums() {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), sum); err != nil {
			return verdict.Wrap(verdict.PlaceDown, "stdout", err)
		}
	}
	return nil
}

// asking is a request, with the source of its version and the destination of its
// files.
type asking struct {
	gate.Request
	channel
	gate gate.Gate
	into *download.Download
	// evidence is the directory with the answers of the log, where the download
	// needs them to be verified again.
	evidence string
	notes    []string // for the verdict
}

func (o *VerifyRelease) prepare(ctx context.Context, args []string, stage profile.Stage) (asking, error) {
	now, err := o.Trust.Moment.Time()
	if err != nil {
		return asking{}, err
	}
	by, err := gate.Open(ctx, o.Profile, gate.Opening{
		Reader:  profile.Reader{Rules: o.Rules, Now: now, Trust: o.Trust.Reader(ctx), Pin: o.Kit.Pin},
		Offline: o.Trust.Offline, Transport: Transport(o.Trust.Offline), OpenPlace: o.OpenPlace, Named: o.Waivers.Named, Switches: o.Switches, Sources: o.Part.Sources.Summaries, Declarations: o.Part.Sources.Declarations,
	})
	if err != nil {
		return asking{}, err
	}
	if err := o.Trust.Used(); err != nil {
		return asking{}, err
	}
	o.unsealed = by.Profile().Unsealed
	ask := asking{gate: by}
	if ask.channel, err = o.resolve(ctx, args, by, now); err != nil {
		return asking{}, err
	}
	options, err := o.options(args)
	if err != nil {
		return asking{}, err
	}
	options.Scope.Manifest = ask.found.Manifest
	at, notes, err := by.Places(ask.found.Version, stage, o.At.Elsewhere)
	if err != nil {
		return asking{}, err
	}
	ask.Request, ask.notes = by.Release(ask.found.Version, stage, at, now), notes
	if ask.Earlier, err = ask.memory.Evidence(ctx); err != nil {
		return asking{}, err
	}
	if ask.Options = options; o.Keep.Download == "" {
		return ask, nil
	}
	if ask.into, err = download.Open(o.Keep.Download, ask.Version.String(), ask.Files); err != nil {
		return asking{}, err
	}
	ask.Files, ask.evidence = ask.into, o.answers()
	return ask, nil
}

func (o *VerifyRelease) options(args []string) (gate.Options, error) {
	options := gate.Options{AllDigests: o.Digests == "all", AcceptSummaries: o.Part.Vouched, Expected: o.Expected}
	var err error
	if options.Scope, err = o.Part.Scope(args[1:]); err != nil {
		return gate.Options{}, err
	}
	if o.Part.Depth == depthFull {
		options.Inside = o.Inside
	}
	options.Checkout.Repository, options.Checkout.Ref = git.Split(o.Source)
	return options, nil
}

func (o *VerifyRelease) check(args []string) error {
	if o.Profile == "" {
		return verdict.Refuse(verdict.Usage, "--profile", "required: it names the places, the policy and the trust root").
			Advise("name the file that you got from the project by a way that you trust, as in --profile profile.yaml")
	}
	if !latest.IsChannel(args[0]) {
		if _, err := Version(args); err != nil { // before a trust root is fetched
			return err
		}
	}
	if o.Digests != "" && o.Digests != "all" && o.Digests != "sha256" {
		return verdict.Refuse(verdict.Usage, "--digests", "%q: want all or sha256", o.Digests)
	}
	if err := o.Part.check(); err != nil {
		return err
	}
	if o.Output.Report != "" && (o.Part.Depth == depthFiles || o.Part.Depth == depthSignatures) {
		return verdict.Refuse(verdict.Usage, "--report", "levels are read from provenance, which --depth leaves out; leave one of the flags out")
	}
	if o.Part.Depth == depthFull && o.Inside == nil {
		return verdict.Refuse(verdict.Usage, "--depth", "this program does not look into artifacts; waybill verify release does")
	}
	if o.Keep.Download != "" && (len(args) > 1 || o.Part.Only == policy.Images) {
		return verdict.Refuse(verdict.Usage, "--download", "the flag fetches the files of the release; name no FILE, and leave --only images out")
	}
	if o.Keep.Sums && o.Part.Only == policy.Images {
		return verdict.Refuse(verdict.Usage, "--print-sums", "sums are of files only; leave one of --print-sums and --only images out")
	}
	if repository, _ := git.Split(o.Source); o.Trust.Offline && git.IsRemote(repository) {
		return verdict.Refuse(verdict.Usage, "--source", "%q is remote, and --offline makes no connection; name a local clone", repository)
	}
	return nil
}
