package main

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// tokenReconciler is the name of the identity that signs transitions.
const tokenReconciler = string(policy.Reconciler)

// signingPatience is how long a signing service is waited for, unless somebody
// says otherwise.
const signingPatience = 10 * time.Minute

// reconciling are the options of the reconciler.
type reconciling struct {
	as      identities
	keys    keys
	once    bool
	confirm bool
	wait    time.Duration
	output  config.Writer
}

func featureReconcileCommand() *cobra.Command {
	o := &reconciling{}
	cmd := &cobra.Command{
		Use:   "reconcile FEATURES.yaml",
		Short: "Take features to what is wanted of them, step by step",
		Long:  featureReconcileHelp(),
		Example: `  waybill feature reconcile FEATURES.yaml --once
  waybill feature reconcile FEATURES.yaml --once --identity-token reconciler=reconciler.token --confirm
  waybill feature reconcile FEATURES.yaml --identity-token reconciler=/var/run/sigstore/reconciler --log-format json --confirm`,
		Args: cobra.ExactArgs(1),
		RunE: o.run,
	}
	f := cmd.Flags()
	f.BoolVar(&o.once, "once", false, "make one pass and end, as a job that runs by a timer does")
	o.as.addFlags(cmd, tokenReconciler)
	o.keys.addFlags(cmd, tokenReconciler)
	g := newGate()
	addGatesFlag(cmd, g)
	o.keys.services = func() bool { return g.Enabled(known.KMSSigning) }
	f.DurationVar(&o.wait, "patience", signingPatience, "how long a signing service is waited for")
	addFeatureOutput(cmd, &o.output)
	f.BoolVar(&o.confirm, "confirm", false, "really do it")
	return cmd
}

func featureReconcileHelp() string {
	return `Make a pass over the features of a site: announce those that this version knows,
begin the transitions that are wanted, run at most one task of each feature, and
sign a statement about each transition as the reconciler of the policy. What was
done is printed, and what is left: who was not heard of yet, which images would be
refused. With --once it ends then, with 0 also where something is left; without, a
pass is made every so often until SIGTERM.

FEATURES.yaml is reviewed, as a policy is (waybill schema features has its JSON
schema). Whatever it names is relative to it:

  apiVersion: waybill/v1
  kind: Features
  site: ./features          # a directory that is there, or gs://… or s3://…
  profile: profile.yaml     # policy, trust root, signing services
  identity: reconciler-0    # slot name of this one among the reconcilers
  every: 1m                 # at most, between two passes
  reporters:                # who uses the features: --report-as of each
  - {identity: promoter, every: 24h}
  window: 48h               # default twice the longest of them
  desired:
    RequireProvenance: {state: "On", scope: [registry.example.test/prod]}
  dynamic: [StatusPage]     # what waybill feature set may decide
  public: [registry.example.test/prod/lantern]
  releases: [v0.1.0]

A transition is done when every reporter was seen with the new value within one
window, and nobody with the old one, and then every task is done. Turning
RequireProvenance or RequireSignoff on, that is an audit of everything that is
public: of the repositories under public, which are all that audits and sweeps
visit, and of the releases. What would be refused is named until it is mended. A
feature that is in no list has what its default says.

Several reconcilers can have one site, each with an identity of its own; a feature
is tended by one of them at a time, and two that do not see each other do no harm.
A pass can end anywhere, and be made again: a statement that was signed is kept,
and not signed twice.

The policy of the profile must name the identity in the role reconciler. Its token
is read anew for each certificate; a token or key of somebody who may not sign is
refused before anything is written. --feature-gates is of this run alone and
switches nothing at the site: with KMSSigning=false no key of a service signs.

Without --confirm nothing is written, signed or swept, and what the next pass would
do is printed.

` + exit.Table
}

func (o *reconciling) run(cmd *cobra.Command, args []string) error {
	switch err := o.output.Check(); {
	case err != nil:
		return err
	case o.wait < 0:
		return verdict.Refuse(verdict.Usage, "--patience", "%s: a wait is not shorter than nothing", o.wait)
	case !o.once && cmd.Flags().Changed("output"):
		return verdict.Refuse(verdict.Usage, "--output", "it is of one pass: give --once; what is done without is logged, in the format of --log-format")
	}
	c, err := readFeatures(args[0])
	if err != nil {
		return err
	}
	b, err := o.open(cmd, c)
	if err != nil {
		return err
	}
	if !o.confirm {
		return o.ahead(cmd, b)
	}
	r, err := b.config.Reconciler(b.world)
	if err != nil {
		return err
	}
	if !o.once {
		loop(cmd, b.config, r)
		return nil
	}
	did, failed := r.Once(cmd.Context())
	return errors.Join(failed, o.output.Passes(cmd.OutOrStdout(), did))
}

// bench is a reconciler with all that it works with.
type bench struct {
	config  config.Config
	profile profile.Profile
	world   config.World
}

// open reads the profile, and opens site, signer and tasks.
func (o *reconciling) open(cmd *cobra.Command, c config.Config) (bench, error) {
	b := bench{config: c, world: config.World{Registry: known.Registry(), Version: featureVersion(), Clock: time.Now}}
	rt, trusted := cli.Transport(false), (&cli.Trust{}).Reader(cmd.Context())
	by, err := gate.Open(cmd.Context(), c.Profile, gate.Opening{
		Reader: profile.Reader{Rules: rules(), Now: time.Now(), Trust: trusted}, Transport: rt, OpenPlace: cloud.OpenPlace,
	})
	if err != nil {
		return bench{}, err
	}
	v := by.Verifier()
	b.profile = by.Profile()
	if b.world.Deeds, err = deeds(b, by, rt); err != nil {
		return bench{}, err
	}
	b.warn(cmd)
	tokens, err := o.as.parse(rt, loginOf(b.profile), cmd.ErrOrStderr())
	if err != nil {
		return bench{}, err
	}
	opened, err := o.keys.open(cmd.Context(), cmd.ErrOrStderr())
	if err == nil {
		err = onlyOne(tokens, opened)
	}
	if err != nil {
		return bench{}, err
	}
	b.world.Site, err = o.site(c)
	if b.world.Site.Statements.Place != nil {
		b.world.Statements = effective.Statements{At: b.world.Site.Statements, Policy: b.profile.Policy, Verifier: v}
	}
	if err != nil || !o.confirm {
		return b, err
	}
	s := config.Signer{Verifier: v, Policy: b.profile.Policy, Statements: b.world.Site.Statements}
	s.By, err = o.signer(cmd, b.profile, v, whoSigns{tokens[tokenReconciler], opened[tokenReconciler], rt})
	b.world.Signer = s
	return b, err
}

// whoSigns is an identity or a key, and the way to the services.
type whoSigns struct {
	token     token.Source
	key       crypto.Signer
	transport http.RoundTripper
}

// signer prepares to sign as the reconciler of the policy.
func (o *reconciling) signer(cmd *cobra.Command, p profile.Profile, v *verify.Verifier, who whoSigns) (*sign.Signer, error) {
	switch {
	case who.token == nil && who.key == nil:
		return nil, verdict.Refuse(verdict.Usage, "--identity-token", "none was given; use --identity-token %[1]s=FILE, or --key %[1]s=FILE", tokenReconciler)
	case len(p.Signing) == 0:
		return nil, verdict.Refuse(verdict.ConfigParse, p.Path, "signingConfig: missing, so nothing can be signed")
	}
	services, err := sign.ParseServices(p.Signing, time.Now())
	if err != nil {
		return nil, err
	}
	logger := loggerOf(cmd.Context())
	c := sign.Config{
		Role: policy.Reconciler, Policy: p.Policy, Verifier: v, Services: services, Transport: who.transport, Clock: time.Now,
		Work: sign.Work{Patience: o.wait, Report: func(ctx context.Context, format string, args ...any) {
			text := fmt.Sprintf(format, args...)
			logger.Log(ctx, levelOf(text), text)
		}},
	}
	if who.key != nil {
		return sign.NewKeyed(c, who.key)
	}
	c.Token = who.token.Token
	return sign.New(c)
}

// site opens the site, and prepares it if anything is to be done. One that
// would have to be prepared first is opened as none.
func (o *reconciling) site(c config.Config) (featurestore.Site, error) {
	if o.confirm {
		if err := featurestore.MakeSite(c.Site); err != nil {
			return featurestore.Site{}, err
		}
	} else if featurestore.Unprepared(c.Site) {
		return featurestore.Site{URI: c.Site}, nil
	}
	return openSite(c.Site, false)
}

// warn says which wishes the policy of the profile has no use for.
func (b bench) warn(cmd *cobra.Command) {
	floors := b.profile.Policy.Floors()
	for _, k := range slices.SortedFunc(maps.Keys(b.config.Wishes.Wanted), func(a, b feature.Key) int { return strings.Compare(a.String(), b.String()) }) {
		_, named := floors[k.Name]
		if requirement := k.Name == known.RequireProvenance || k.Name == known.RequireSignoff; requirement && !named {
			loggerOf(cmd.Context()).WarnContext(cmd.Context(), fmt.Sprintf("WARNING: %s is wanted, and the policy does not name it under features: it counts there as it is written, whatever the feature is", k.Name))
		}
	}
}

// ahead prints what the next pass would do.
func (o *reconciling) ahead(cmd *cobra.Command, b bench) error {
	would, failed := b.config.Ahead(cmd.Context(), b.world)
	if err := errors.Join(failed, o.output.Passes(cmd.OutOrStdout(), would)); err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "this is what the next pass would do; nothing was done; add --confirm to do it")
	return nil
}

// loop makes passes until it is told to end, and logs what is new.
func loop(cmd *cobra.Command, c config.Config, r *reconcile.Reconciler) {
	passes(cmd.Context(), loggerOf(cmd.Context()), c, r)
}

// passes makes passes until ctx ends, and logs what is new.
func passes(ctx context.Context, logger *slog.Logger, c config.Config, r *reconcile.Reconciler) {
	news := config.News{}
	logger.InfoContext(ctx, fmt.Sprintf("reconciling the features at %s as %s, every %s", c.Site, c.Identity, c.Every))
	c.Loop(ctx, r, func(ctx context.Context, did []reconcile.Pass, err error) {
		fresh := news.Of(did)
		for _, line := range config.Lines(fresh) {
			logger.InfoContext(ctx, line)
		}
		if err != nil && len(fresh) == 0 { // it failed before any feature
			logger.Log(ctx, slog.LevelError, err.Error())
		}
	})
}
