package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"

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
	// Profile is a file, or the name of the profile that is built in. What it
	// is before the flags are added is their default.
	Profile string
	// At is where to read instead of where the profile says.
	At      At
	Digests string
	// OpenPlace opens a place of files; nil is [store.Open], which knows no
	// credentials.
	OpenPlace func(uri string, rt http.RoundTripper) (store.Place, error)
	// Part is how much is asked, and Keep what becomes of what was verified.
	Part   Part
	Keep   Keep
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
	// Switches read how far a policy counts; nil where no features switch it.
	Switches func(ctx context.Context, p policy.Policy, v *verify.Verifier) (gate.Switches, error)
	// Log is asked about signatures that do not say when they were made.
	Log Log

	unsealed *profile.Unsealed // as the profile says
}

// AddFlags adds the flags.
func (o *VerifyRelease) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Profile, "profile", o.Profile, "file that names places, policy and trust root; or one that is built in: kubernetes, as it is published today, without a manifest, or kubernetes-sealed, as it should be")
	f.StringVar(&o.Source, "source", "", "repository to hold the release against: a path, git+file://, git+https:// or git+ssh://, with @REF if the tag is not the version. Every provenance must name its commit, and release.yaml and its lock must be that commit's")
	f.BoolVar(&o.Trust.Offline, "offline", false, "dial nothing: every place must be local, and a profile without a trust root is judged by the public-good copy that this program carries")
	o.At.AddFlags(cmd)
	o.Part.AddDepth(cmd)
	o.Output.AddFlags(cmd)
	o.Trust.AddFlags(cmd)
	o.Waivers.AddFlags(cmd)
	o.Log.AddFlags(cmd)
}

// AddPartFlags adds the flags for those who ask about a part of what was
// published, or want to have it.
func (o *VerifyRelease) AddPartFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Digests, "digests", "sha256", "sha256: compare files by it alone, which binds every byte; all: by every digest that the manifest lists, which a policy may ask for, too")
	o.Part.AddFlags(cmd)
	o.Keep.AddFlags(cmd)
}

// Run verifies a release where a stage keeps it, prints the verdict and
// returns it as an error unless it accepts. The arguments are a version, or a
// channel that stands for one, and files of this machine to judge instead of
// all.
func (o *VerifyRelease) Run(cmd *cobra.Command, args []string, stage profile.Stage) error {
	if err := o.check(args); err != nil {
		return err
	}
	if err := o.unused(cmd, args); err != nil {
		return err
	}
	ask, err := o.prepare(cmd.Context(), args, stage)
	if err != nil {
		return err
	}
	if ask.into != nil {
		defer func() { _ = ask.into.Close() }() // the process's end does it, too
	}
	if err := o.unusedUnder(cmd); err != nil {
		return err
	}
	log := Log{URL: o.Log.URL, Evidence: o.answers()}
	if ask.Options.Finder, err = log.Finder(o.Trust.Offline); err != nil {
		return err
	}
	ask.Options.Progress = o.progress(cmd.ErrOrStderr())
	decided, err := ask.gate.Decide(cmd.Context(), ask.Request)
	if err != nil {
		return err
	}
	if err := context.Cause(cmd.Context()); err != nil {
		return err
	}
	v := decided.Verdict
	ask.followed(v)
	for _, note := range ask.notes {
		v.Note("%s", note)
	}
	ask.finish(cmd.Context(), decided)
	out := cmd.OutOrStdout()
	if o.Keep.Sums {
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

// asking is a request with where its version comes from and where its files
// go.
type asking struct {
	gate.Request
	channel
	gate gate.Gate
	into *download.Download
	// evidence is the directory with the answers of the log, if the download
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
		Reader:  profile.Reader{Rules: o.Rules, Now: now, Trust: o.Trust.Reader(ctx)},
		Offline: o.Trust.Offline, Transport: Transport(o.Trust.Offline), OpenPlace: o.OpenPlace, Named: o.Waivers.Named, Switches: o.Switches,
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
	options := gate.Options{AllDigests: o.Digests == "all", AcceptSummaries: o.Part.Vouched}
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

// progress shows on a terminal how far it is, and elsewhere nothing: lines of a
// log are not redrawn.
func (o *VerifyRelease) progress(stderr io.Writer) func(gate.Progress) {
	if ui.Width(stderr) == 0 {
		return nil
	}
	verb := "hashing"
	if o.Keep.Download != "" {
		verb = "fetching"
	}
	line := ui.NewProgress(stderr, verb)
	return func(p gate.Progress) { line.Update(ui.Far(p)) }
}

func (o *VerifyRelease) check(args []string) error {
	if o.Profile == "" {
		return verdict.Refuse(verdict.Usage, "--profile", "required: it names the places, the policy and the trust root")
	}
	if !latest.IsChannel(args[0]) {
		if _, err := Version(args); err != nil { // before anybody is asked for a trust root
			return err
		}
	}
	if o.Digests != "" && o.Digests != "all" && o.Digests != "sha256" {
		return verdict.Refuse(verdict.Usage, "--digests", "%q: want all or sha256", o.Digests)
	}
	if err := o.Part.check(); err != nil {
		return err
	}
	if o.Part.Depth == depthFull && o.Inside == nil {
		return verdict.Refuse(verdict.Usage, "--depth", "this small program does not look into artifacts; waybill verify release does")
	}
	if o.Keep.Download != "" && (len(args) > 1 || o.Part.Only == policy.Images) {
		return verdict.Refuse(verdict.Usage, "--download", "it fetches the files of the release; name no files, and not --only images")
	}
	if o.Keep.Sums && o.Part.Only == policy.Images {
		return verdict.Refuse(verdict.Usage, "--print-sums", "images have digests in the registry; sums are of files")
	}
	if repository, _ := git.Split(o.Source); o.Trust.Offline && git.IsRemote(repository) {
		return verdict.Refuse(verdict.Usage, "--source", "%q is elsewhere, and offline nobody is asked; name a local clone", repository)
	}
	return o.Output.Check()
}
