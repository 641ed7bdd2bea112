package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/backend/kubernetes"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/backend/store/draft"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/pipeline"
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
	// buildsFrom is whether the command can build, from the repository here if
	// none is named.
	buildsFrom bool
	sources    cli.Sources         // about the source that was built, and its builder
	alone      *pipeline.Exclusion // for commands that take a lease of the release; else nil
	// progress is shown from when the configuration of a pipeline is made.
	progress *ui.Progress
}

func (o *project) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", "", `profile that names places, policy, trust root and signing services (default: profile.yaml here, or above up to the top of the repository)`)
	addStateFlag(cmd, &o.state, "directory for the files and the progress of the release; another run continues from it")
	o.chosen.addFlags(cmd)
}

func (o *project) addSourceFlags(cmd *cobra.Command) {
	o.buildsFrom = true
	cmd.Flags().StringVar(&o.source, "source", "", "repository to build from: a path, git+file://, git+https:// or git+ssh://, with @REF if the tag is not the version (default: this repository, if release.yaml is at its top)")
	cmd.Flags().StringVar(&o.signers, "tag-signers", "", "allowed-signers file of ssh-keygen: provenance names which of them signed the tag; without it, that the tag was not verified")
}

func (o *project) addTokenFlags(cmd *cobra.Command) {
	o.as.addFlags(cmd, pipeline.TokenNames()...)
	o.keys.addFlags(cmd, pipeline.KeyNames()...)
	cmd.Flags().DurationVar(&o.wait, "patience", 10*time.Minute, "how long to wait for a signing service, or for a new token after one has expired")
}

// addFeatureFlags adds the flags of features that change how a command signs and
// attaches evidence. Call it after the command has its RunE, which it wraps.
func (o *project) addFeatureFlags(cmd *cobra.Command) {
	o.feature.addFlags(cmd)
	o.keys.services = o.feature.asks(known.KMSSigning)
}

func (o *project) addLegacyFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.legacy, "legacy", false, "also sign in the legacy forms from before Sigstore bundles: FILE.sig and FILE.cert, and the tags .sig and .att of images; needs a Rekor v1 log in the signing config. Always on where the feature BundleReferrers is off")
	o.signs = true
}

// withLegacy reports whether to sign in the legacy forms, too: because of --legacy,
// or because BundleReferrers is off and older clients cannot find referrers.
func (o *project) withLegacy() bool {
	return o.legacy || o.signs && !o.feature.gate.Enabled(known.BundleReferrers)
}

func (o *project) addLeaseFlags(cmd *cobra.Command) {
	o.alone = &pipeline.Exclusion{}
	addLeaseFlags(cmd, o.alone, "this release")
}

func (o *project) open(cmd *cobra.Command, args []string) (*pipeline.Pipeline, context.Context, error) {
	all, ctx, err := o.openAll(cmd, args)
	if err != nil {
		return nil, nil, err
	}
	return all[0], ctx, nil
}

// openAll makes a pipeline for each version, each with a state directory of its
// own.
func (o *project) openAll(cmd *cobra.Command, args []string) (pipeline.Train, context.Context, error) {
	versions, err := cli.Versions(args)
	if err != nil {
		return nil, nil, err
	}
	o.settle(versions)
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

// gate reads the profile, and opens the gate with the flags about decisions.
func (o *project) gate(ctx context.Context) (gate.Gate, error) {
	if o.profile == "" {
		return gate.Gate{}, verdict.Refuse(verdict.Usage, "--profile", "no profile was given, and there is no profile.yaml here; it names the places, the policy and the trust root").
			Advise("write one with waybill init --confirm, or name one with --profile")
	}
	return gate.Open(ctx, o.profile, gate.Opening{
		Reader:    profile.Reader{Rules: rules(), Now: time.Now(), Trust: (&cli.Trust{}).Reader(ctx)},
		Transport: cli.Transport(false), OpenPlace: cloud.OpenPlace, Named: o.waivers.Named, Switches: o.feature.switches,
		Sources: o.sources.Summaries, Declarations: o.sources.Declarations,
	})
}

// config makes the configuration of a pipeline from the flags. The caller adds the
// version.
func (o *project) config(cmd *cobra.Command, by gate.Gate) (pipeline.Config, context.Context, error) {
	if o.wait < 0 {
		return pipeline.Config{}, nil, verdict.Refuse(verdict.Usage, "--patience", "%s: want 0 or more", o.wait)
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
	report := reportTo(o.observe(cmd))
	source := pipeline.ParseSource(o.source)
	source.Signers = o.signers
	ctx, rt := cmd.Context(), cli.Transport(false)
	tokens, err := o.tokens(cmd, rt, by.Profile())
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
	return pipeline.Config{
		Gate: by, Source: source, Parameters: chosen, RunState: hold,
		Signing: pipeline.Signing{Tokens: tokens, Keys: opened, Legacy: o.withLegacy(), Maker: maker(), RecordOptions: o.feature.evidenceOptions()},
		World: pipeline.World{
			Typed:     pipeline.Typed{Args: commandLine(), Dir: workingDir(), Profile: o.profile},
			Transport: rt, Clock: time.Now, Progress: o.progress, Work: sign.Work{Patience: o.wait, Report: report},
			OpenPlace:  func(uri string) (store.Place, error) { return openPlace(uri, rt) },
			OpenWriter: func(uri string) (store.Writer, error) { return openWriter(uri, rt) },
		},
		Report: report,
	}, ctx, nil
}

// reportTo logs lines.
func reportTo(logger *slog.Logger) func(ctx context.Context, format string, args ...any) {
	return func(ctx context.Context, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		logger.Log(ctx, levelOf(text), text)
	}
}

// levelOf is the log level of a line, which text marks by its first word.
func levelOf(line string) slog.Level {
	if strings.HasPrefix(line, "WARNING: ") {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// commandLine is the command line, for the journal to repeat. A token on it is removed.
func commandLine() []string {
	args := slices.Clone(os.Args)
	for i := range args {
		args[i] = token.Hide(args[i])
	}
	return args
}

// workingDir is the working directory; empty if it is unknown.
func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}

// loginOf is the address where a person logs in, if the profile names one.
func loginOf(p profile.Profile) string {
	services, err := sign.ParseServices(p.Signing, time.Now())
	if err != nil {
		return "" // signing reports it
	}
	return services.Login
}

// observe opens the display of progress, and returns the logger, whose text appears
// above it.
func (o *project) observe(cmd *cobra.Command) *slog.Logger {
	o.progress = ui.NewProgress(cli.Notes(cmd))
	if logger, err := ui.NewLogger(o.progress, "text", slog.LevelInfo); err == nil && formatOf(cmd) == "text" {
		return logger
	}
	return loggerOf(cmd.Context())
}

// openWriter opens a bucket or a release on GitHub with its own client, or a
// directory.
func openWriter(uri string, rt http.RoundTripper) (store.Writer, error) {
	if kubernetes.Is(uri) {
		return kubernetes.Open(uri, rt)
	}
	if github.Is(uri) {
		return draft.Open(uri, rt)
	}
	if scheme, _, is := strings.Cut(uri, "://"); is && (strings.HasPrefix(scheme, "gs") || strings.HasPrefix(scheme, "s3")) {
		return cloud.OpenWriter(uri, rt)
	}
	return store.OpenWriter(uri)
}

// openPlace opens a place that is also written to: a namespace of a cluster, or any
// other place.
func openPlace(uri string, rt http.RoundTripper) (store.Place, error) {
	if kubernetes.Is(uri) {
		return kubernetes.Open(uri, rt)
	}
	return cloud.OpenPlace(uri, rt)
}

// maker describes this program, and the job that runs it, for records.
func maker() pipeline.Maker {
	m := pipeline.Maker{Promoter: promotionrecord.Promoter{Version: cli.BuildVersion()}, Job: job(os.Getenv)}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return m
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			m.Commit = s.Value
		}
	}
	return m
}

// job describes the CI job, from the environment of Prow, GitHub Actions or GitLab.
// Elsewhere it is empty.
func job(env func(string) string) promotionrecord.Job {
	for _, named := range [][4]string{
		{"JOB_NAME", "JOB_TYPE", "BUILD_ID", "PROW_JOB_ID"},
		{"GITHUB_WORKFLOW", "GITHUB_EVENT_NAME", "GITHUB_RUN_ID", ""},
		{"CI_JOB_NAME", "CI_PIPELINE_SOURCE", "CI_JOB_ID", ""},
	} {
		if j := (promotionrecord.Job{Name: env(named[0]), Type: env(named[1]), BuildID: env(named[2])}); j.Name != "" {
			if named[3] != "" {
				j.ProwJobID = env(named[3])
			}
			return j
		}
	}
	return promotionrecord.Job{}
}
