package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// project are the options of every command that works on a release.
type project struct {
	profile string
	state   string
	source  string
	signers string
	as      identities
	keys    keys
	wait    time.Duration
	chosen  parameters
	legacy  bool
	signs   bool // files or images
	feature featureFlags
	waivers cli.Waivers
	alone   *pipeline.Exclusion // of the commands that hold a lease of the release
}

func (o *project) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", "", "profile that names places, policy, trust root and signing services (required)")
	f.StringVar(&o.state, "state", ".waybill", "directory in which the release comes into being; a second run goes on from it")
	o.chosen.addFlags(cmd)
}

func (o *project) addSourceFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.source, "source", "", "repository to build from: a path, git+file://, git+https:// or git+ssh://, with @REF if the tag is not the version")
	cmd.Flags().StringVar(&o.signers, "tag-signers", "", "file of allowed signers, as ssh-keygen reads it: provenance names who of them signed the tag; without it, that nobody is verified")
}

func (o *project) addTokenFlags(cmd *cobra.Command) {
	o.as.addFlags(cmd, pipeline.TokenNames()...)
	o.keys.addFlags(cmd, pipeline.KeyNames()...)
	cmd.Flags().DurationVar(&o.wait, "patience", 10*time.Minute, "how long a signing service, or a fresh token in place of one that ran out, is waited for")
}

// addFeatureFlags lets features say how a command signs and attaches. It comes
// after the command has what it runs.
func (o *project) addFeatureFlags(cmd *cobra.Command) {
	o.feature.addFlags(cmd)
	o.keys.services = o.feature.asks(known.KMSSigning)
}

func (o *project) addLegacyFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.legacy, "legacy", false, "sign in the forms from before bundles, too: FILE.sig and FILE.cert, and the tags .sig and .att of images; needs a Rekor v1 log in the signing config. So it is where the feature BundleReferrers is off")
	o.signs = true
}

// withLegacy reports whether what is signed is signed in the legacy forms, too: as is
// asked for, or because evidence is not to be attached as referrers alone.
func (o *project) withLegacy() bool {
	return o.legacy || o.signs && !o.feature.gate.Enabled(known.BundleReferrers)
}

func (o *project) addLeaseFlags(cmd *cobra.Command) {
	o.alone = &pipeline.Exclusion{}
	addLeaseFlags(cmd, o.alone, "this release")
}

// open makes the pipeline of a release. The context carries the id of the run.
func (o *project) open(cmd *cobra.Command, args []string) (*pipeline.Pipeline, context.Context, error) {
	all, ctx, err := o.openAll(cmd, args)
	if err != nil {
		return nil, nil, err
	}
	return all[0], ctx, nil
}

// openAll makes a pipeline for each version. Nothing is shared between them
// but what they are told: several have each a state directory of their own.
func (o *project) openAll(cmd *cobra.Command, args []string) (pipeline.Train, context.Context, error) {
	versions, err := cli.Versions(args)
	if err != nil {
		return nil, nil, err
	}
	by, err := o.gate(cmd.Context())
	if err != nil {
		return nil, nil, err
	}
	c, ctx, err := o.config(cmd, by)
	if err != nil {
		return nil, nil, err
	}
	train, err := pipeline.NewTrain(c, versions)
	return train, ctx, err
}

// gate reads the profile and what the flags say about decisions.
func (o *project) gate(ctx context.Context) (gate.Gate, error) {
	if o.profile == "" {
		return gate.Gate{}, verdict.Refuse(verdict.Usage, "--profile", "required: it names the places, the policy and the trust root")
	}
	return gate.Open(ctx, o.profile, gate.Opening{
		Reader:    profile.Reader{Rules: rules(), Now: time.Now(), Trust: (&cli.Trust{}).Reader(ctx)},
		Transport: cli.Transport(false), OpenPlace: cloud.OpenPlace, Named: o.waivers.Named, Switches: o.feature.switches,
	})
}

// config is what the flags say of any release of a profile; the version is
// left to the caller.
func (o *project) config(cmd *cobra.Command, by gate.Gate) (pipeline.Config, context.Context, error) {
	if o.wait < 0 {
		return pipeline.Config{}, nil, verdict.Refuse(verdict.Usage, "--patience", "%s: a wait is not shorter than nothing", o.wait)
	}
	hold := pipeline.RunState{State: o.state}
	if o.alone != nil {
		if err := checkLease(cmd, *o.alone); err != nil {
			return pipeline.Config{}, nil, err
		}
		hold.Exclusion = *o.alone
	}
	chosen, err := o.chosen.parse()
	if err != nil {
		return pipeline.Config{}, nil, err
	}
	logger, progress := conversation(cmd)
	source := pipeline.ParseSource(o.source)
	source.Signers = o.signers
	ctx, rt := cmd.Context(), cli.Transport(false)
	tokens, err := o.as.parse(rt, loginOf(by.Profile()), cmd.ErrOrStderr())
	if err != nil {
		return pipeline.Config{}, nil, err
	}
	opened, err := o.keys.open(ctx, cmd.ErrOrStderr())
	if err == nil {
		err = onlyOne(tokens, opened)
	}
	if err != nil {
		return pipeline.Config{}, nil, err
	}
	report := func(ctx context.Context, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		logger.Log(ctx, levelOf(text), text)
	}
	return pipeline.Config{
		Gate: by, Source: source, Parameters: chosen, RunState: hold,
		Signing: pipeline.Signing{Tokens: tokens, Keys: opened, Legacy: o.withLegacy(), Maker: maker(), RecordOptions: o.feature.ways()},
		World: pipeline.World{
			Typed:     pipeline.Typed{Args: typed(), Dir: here(), Profile: o.profile},
			Transport: rt, Clock: time.Now, Progress: progress, Work: sign.Work{Patience: o.wait, Report: report},
			OpenPlace:  func(uri string) (store.Place, error) { return cloud.OpenPlace(uri, rt) },
			OpenWriter: func(uri string) (store.Writer, error) { return openWriter(uri, rt) },
		},
		Report: report,
	}, ctx, nil
}

// levelOf is how loud a line is: in text its first word says so, for machines the
// level does.
func levelOf(line string) slog.Level {
	if strings.HasPrefix(line, "WARNING: ") {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// typed is the command line, to be typed again. It names secrets and has none;
// should somebody have put one there, it is not kept.
func typed() []string {
	args := slices.Clone(os.Args)
	for i := range args {
		args[i] = token.Hide(args[i])
	}
	return args
}

// here is the working directory; empty where it has none.
func here() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}

// loginOf is where a person logs in, if the profile's services say so.
func loginOf(p profile.Profile) string {
	services, err := sign.ParseServices(p.Signing, time.Now())
	if err != nil {
		return "" // whoever signs is told
	}
	return services.Login
}

// conversation is who tells lines for people, and what shows them the steps
// that run: nothing, unless it is a terminal.
func conversation(cmd *cobra.Command) (*slog.Logger, run.Progress) {
	if steps, is := ui.OnTerminal(cmd.ErrOrStderr()); is {
		logger, err := ui.NewLogger(steps, "text")
		if err == nil {
			return logger, steps
		}
	}
	return loggerOf(cmd.Context()), nil
}

// openWriter writes to buckets through their own client, to directories
// directly.
func openWriter(uri string, rt http.RoundTripper) (store.Writer, error) {
	if scheme, _, is := strings.Cut(uri, "://"); is && (strings.HasPrefix(scheme, "gs") || strings.HasPrefix(scheme, "s3")) {
		return cloud.OpenWriter(uri, rt)
	}
	return store.OpenWriter(uri)
}
