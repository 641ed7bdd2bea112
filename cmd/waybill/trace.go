package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/report/lineage"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

type tracing struct {
	profile, policy, state string
	files, images          []string
	mirror                 cli.At
	trust                  cli.Trust
	output                 lineage.Writer
}

func traceCommand() *cobra.Command {
	o := &tracing{}
	cmd := newCommand("trace", cobra.RangeArgs(1, 2), o.run)
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", "", "profile that names places, policy and trust root")
	f.StringVar(&o.policy, "policy", "", "policy that says who may sign what, where no profile names one")
	addStateFlag(cmd, &o.state, "directory with the files of the release; skipped if it does not exist")
	f.StringArrayVar(&o.files, "files", nil, "also search these files: a place of a release, with its manifest; repeats")
	f.StringArrayVar(&o.images, "images", nil, "also search this registry for the images of the release; repeats")
	o.mirror.AddInstead(cmd)
	o.trust.AddChoice(cmd)
	o.trust.AddFlags(cmd)
	cli.AddFormat(cmd, (*string)(&o.output.Format), "table or json", string(lineage.Table), string(lineage.JSON))
	f.BoolVar(&o.output.Verbose, "verbose", false, "list every artifact, and print full digests")
	return cmd
}

func (o *tracing) run(cmd *cobra.Command, args []string) error {
	of, _ := cli.Versions(args[1:]) // a word that is no version is refused below
	o.state = stateDir(o.state, append(of, version.Version{})[0])
	ctx, rt := cmd.Context(), cli.Transport(o.trust.Offline)
	target, image, err := o.target(cmd, args[0], rt)
	if err != nil {
		return err
	}
	var loaded *profile.Profile
	if o.profile != "" {
		if loaded, err = o.load(ctx); err != nil {
			return err
		}
	}
	who, err := o.believed(ctx, loaded)
	if err != nil {
		return err
	}
	t := lineage.Start(who)
	if who.Verifier == nil {
		t.Note("nothing was verified: give --profile, or --policy and --trusted-root")
	} else if who.Verifier.Root().IsLab() {
		t.Note("the trust root is an %s: anybody can have its keys, so verified says nothing about who signed", trust.LabMark)
	}
	if loaded == nil && len(o.mirror.Instead) > 0 {
		return verdict.Refuse(verdict.Usage, "--place", "the flag names a mirror of a place in a profile, and needs --profile and VERSION").
			Advise("give both, or name the mirror itself with --files and --images")
	}
	if !workspace.Is(o.state) && cmd.Flags().Changed("state") {
		_, err := workspace.Open(o.state)
		return err
	}
	if image == nil && loaded == nil && len(o.files) == 0 && !workspace.Is(o.state) {
		return verdict.Refuse(verdict.Usage, "trace", "no release in %q, and no other place to search was given", o.state).
			Advise("name the directory of the release with --state, or a --profile and the VERSION")
	}
	if image != nil && loaded != nil && len(args) == 1 && !workspace.Is(o.state) {
		t.Note("no VERSION was given, so the places of the profile were not searched")
		loaded = nil
	}
	if err := o.look(ctx, t, loaded, args[1:], rt); err != nil {
		return err
	}
	if image != nil {
		found, err := image(ctx, t)
		if err != nil {
			return err
		}
		target = lineage.OfBytes(args[0], found...)
	}
	found, unknown := t.Of(target)
	if err := o.output.Write(cmd.OutOrStdout(), found); err != nil {
		return err
	}
	return ended(found, unknown)
}

func (o *tracing) load(ctx context.Context) (*profile.Profile, error) {
	now, err := o.trust.Moment.Time()
	if err != nil {
		return nil, err
	}
	p, err := profile.Load(o.profile, profile.Reader{Rules: rules(), Now: now, Trust: o.trust.Reader(ctx)})
	if err != nil {
		return nil, err
	}
	return &p, o.trust.Used()
}

// ended is the error of the command: a place that did not answer comes before a
// target that was not found, because it may be there.
func ended(l lineage.Lineage, unknown error) error {
	if len(l.Unasked) > 0 {
		return &verdict.Error{Finding: l.Unasked[0]}
	}
	if unknown != nil {
		return unknown
	}
	for _, f := range l.Findings {
		if f.Code != verdict.TraceConflict {
			return &verdict.Error{Finding: f}
		}
	}
	return nil
}

// find looks for an image in a registry, and returns the digests of its
// manifests.
type find func(ctx context.Context, t *lineage.Trail) ([]digest.Digest, error)

// target parses TARGET. For an image it returns the function that finds its digests
// instead.
func (o *tracing) target(cmd *cobra.Command, text string, rt http.RoundTripper) (lineage.Target, find, error) {
	if text == "-" {
		found, err := lineage.ReadLog(cmd.InOrStdin())
		if err == nil && len(found) == 0 {
			err = verdict.Refuse(verdict.EvidenceMissing, "stdin", "no line contains a trace id").
				Advise("give lines of --log-format json, or text with a traceparent or trace_id=… in it")
		}
		return lineage.OfLines("on stdin", found), nil, err
	}
	info, err := os.Stat(text)
	switch {
	case err == nil && info.Mode().IsRegular():
		return ofFile(text)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return lineage.Target{}, nil, verdict.Wrap(verdict.PlaceDown, text, err)
	case strings.Contains(text, "/") && strings.ContainsAny(text, ":@") && !strings.HasPrefix(text, "sha256:"):
		image, err := cli.Image(text, rt)
		if err != nil {
			return lineage.Target{}, nil, err
		}
		return lineage.Target{}, func(ctx context.Context, t *lineage.Trail) ([]digest.Digest, error) {
			return t.Image(ctx, text, image.Source, image.Repository, image.Reference())
		}, nil
	}
	target, unread := lineage.ParseTarget(text)
	if unread != nil && err == nil {
		unread = verdict.Refuse(verdict.Usage, text, "not a regular file, so it has no digest").
			Advise("name a file in it, an artifact of the release, or a digest")
	}
	return target, nil, unread
}

func ofFile(path string) (lineage.Target, find, error) {
	f, err := store.OpenNamed(path)
	if err != nil {
		return lineage.Target{}, nil, err
	}
	defer f.Close()
	bytes, _, err := digest.Sum(f)
	if err != nil {
		return lineage.Target{}, nil, verdict.Wrap(verdict.PlaceDown, path, err)
	}
	return lineage.OfFile(path, bytes), nil, nil
}

// believed is the trust root and the policy, of the profile or of the flags.
func (o *tracing) believed(ctx context.Context, p *profile.Profile) (lineage.Believed, error) {
	if p != nil {
		if o.policy != "" || o.trust.File != "" {
			return lineage.Believed{}, verdict.Refuse(verdict.Usage, "--profile", "excludes --policy and --trusted-root, because the profile names both")
		}
		v, err := verify.NewWith(p.TrustRoot, p.Policy.Verification())
		return lineage.Believed{Verifier: v, Policy: &p.Policy}, err
	}
	if o.policy == "" && o.trust.File == "" && !o.trust.Offline {
		return lineage.Believed{}, nil
	}
	root, err := o.trust.ToJudge(ctx)
	if err != nil {
		return lineage.Believed{}, err
	}
	who, asked := lineage.Believed{}, verify.Default()
	if o.policy != "" {
		raw, err := store.ReadNamed(o.policy, maxPolicy)
		if err != nil {
			return lineage.Believed{}, err
		}
		read, err := policy.Parse(raw, rules())
		if err != nil {
			return lineage.Believed{}, verdict.InFile(o.policy, err)
		}
		who.Policy, asked = &read, read.Verification()
	}
	who.Verifier, err = verify.NewWith(root.Root, asked)
	return who, err
}

// look reads every place of the flags and of the profile.
func (o *tracing) look(ctx context.Context, t *lineage.Trail, p *profile.Profile, args []string, rt http.RoundTripper) error {
	of, err := o.version(args, p)
	if err != nil {
		return err
	}
	if workspace.Is(o.state) {
		w, err := workspace.Open(o.state)
		if err != nil {
			return err
		}
		if held := w.Identity().Version; !of.IsZero() && held != of {
			t.Note("the state directory is of %s, so it was not searched", held)
		} else if err := t.State(ctx, w); err != nil {
			return err
		}
	}
	if p != nil {
		for _, stage := range []profile.Stage{profile.Staging, profile.Release} {
			at, err := o.placesOf(t, p, stage, of, rt)
			if err != nil {
				return err
			}
			if at.Files == nil {
				continue // the profile has no such place
			}
			if err := t.Published(ctx, at); err != nil {
				return err
			}
		}
	}
	for _, uri := range o.files {
		files, err := cloud.OpenPlace(uri, rt)
		if err != nil {
			return verdict.Wrap(verdict.Usage, uri, err)
		}
		if err := t.Published(ctx, lineage.Published{Name: uri, Files: files}); err != nil {
			return err
		}
	}
	for _, prefix := range o.images {
		images, err := openImages(prefix, rt)
		if err != nil {
			return err
		}
		if err := t.Registry(ctx, prefix, images); err != nil {
			return err
		}
	}
	return nil
}

// version is the version to search for: the one that was given, or that of the state
// directory.
func (o *tracing) version(args []string, p *profile.Profile) (version.Version, error) {
	switch {
	case len(args) > 0:
		return cli.Version(args)
	case p == nil:
		return version.Version{}, nil
	case !workspace.Is(o.state):
		return version.Version{}, verdict.Refuse(verdict.Usage, "VERSION", "required with --profile, where --state has no release").
			Advise("name the release after TARGET, as v0.1.0")
	}
	w, err := workspace.Open(o.state)
	if err != nil {
		return version.Version{}, err
	}
	return w.Identity().Version, nil
}

// placesOf opens the places of a stage in a profile, which may have none. With
// --place the mirror of the release place is opened instead.
func (o *tracing) placesOf(t *lineage.Trail, p *profile.Profile, stage profile.Stage, of version.Version, rt http.RoundTripper) (lineage.Published, error) {
	at, mirror := lineage.Published{Name: string(stage)}, gate.Elsewhere{}
	if stage == profile.Release {
		var canon gate.Canonical
		var notes []string
		var err error
		canon.Files, canon.Images = p.Canonical(of)
		if mirror, notes, err = o.mirror.Settle(canon); err != nil {
			return lineage.Published{}, err
		}
		for _, n := range notes {
			t.Note("%s", n)
		}
	}
	var err error
	uri := mirror.Files
	if uri == "" {
		if uri, err = p.Files(stage, of); err != nil {
			return lineage.Published{}, nil //nolint:nilerr // the profile need not have this place
		}
	}
	if at.Files, err = cloud.OpenPlace(uri, rt); err != nil {
		return lineage.Published{}, err
	}
	prefix := mirror.Images
	if prefix == "" {
		if prefix, err = p.Images(stage, of); err != nil || prefix == "" {
			return at, err
		}
	}
	at.Images, err = openImages(prefix, rt)
	return at, err
}

// openImages opens a registry, or an OCI layout on this machine.
func openImages(at string, rt http.RoundTripper) (registry.Source, error) {
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		return registry.OpenLayout(at)
	}
	return registry.OpenRemote(at, rt)
}
