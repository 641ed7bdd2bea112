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
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/cleanup"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/coverage"
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

// signingPatience is how long to wait for a signing service by default.
const signingPatience = 10 * time.Minute

// reconciling are the options of feature reconcile.
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
	cmd := newCommand("feature_reconcile", cobra.ExactArgs(1), o.run)
	f := cmd.Flags()
	f.BoolVar(&o.once, "once", false, "make one pass and exit, for a job that a timer starts")
	o.as.addFlags(cmd, tokenReconciler)
	o.keys.addFlags(cmd, tokenReconciler)
	g := newGate()
	addGatesFlag(cmd, g)
	o.keys.services = func() bool { return g.Enabled(known.KMSSigning) }
	f.DurationVar(&o.wait, "patience", signingPatience, "how long to wait for a signing service")
	addFeatureOutput(cmd, &o.output)
	f.BoolVar(&o.confirm, "confirm", false, "write, sign and clean up; without it, only print what the next pass would do")
	return cmd
}

func (o *reconciling) run(cmd *cobra.Command, args []string) error {
	switch {
	case o.wait < 0:
		return verdict.Refuse(verdict.Usage, "--patience", "%s: want 0 or more", o.wait)
	case !o.once && cmd.Flags().Changed("output"):
		return verdict.Refuse(verdict.Usage, "--output", "the flag prints the result of one pass; give --once, or use --log-format: repeated passes are logged")
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
		passes(cmd.Context(), loggerOf(cmd.Context()), b.config, r)
		return nil
	}
	did, failed := r.Once(cmd.Context())
	return errors.Join(failed, o.output.Passes(cmd.OutOrStdout(), did))
}

// reconcilerParts is everything that a reconciler needs.
type reconcilerParts struct {
	config  config.Config
	profile profile.Profile
	world   config.World
}

// open reads the profile, and opens site, signer and tasks.
func (o *reconciling) open(cmd *cobra.Command, c config.Config) (reconcilerParts, error) {
	b := reconcilerParts{config: c, world: config.World{Registry: known.Registry(), Version: featureVersion(), Clock: time.Now}}
	rt, trusted := cli.Transport(false), (&cli.Trust{}).Reader(cmd.Context())
	by, err := gate.Open(cmd.Context(), c.Profile, gate.Opening{
		Reader: profile.Reader{Rules: rules(), Now: time.Now(), Trust: trusted}, Transport: rt, OpenPlace: cloud.OpenPlace,
	})
	if err != nil {
		return reconcilerParts{}, err
	}
	v := by.Verifier()
	b.profile = by.Profile()
	if b.world.Deeds, err = featureTasks(b, by, rt); err != nil {
		return reconcilerParts{}, err
	}
	b.warn(cmd)
	tokens, err := o.as.parse(rt, loginOf(b.profile), cmd.ErrOrStderr())
	if err != nil {
		return reconcilerParts{}, err
	}
	opened, err := o.keys.open(cmd.Context(), cmd.ErrOrStderr())
	if err == nil {
		err = onlyOne(tokens, opened)
	}
	if err != nil {
		return reconcilerParts{}, err
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

// whoSigns is an identity or a key, and the transport to the signing services.
type whoSigns struct {
	token     token.Source
	key       crypto.Signer
	transport http.RoundTripper
}

// signer prepares to sign as the reconciler of the policy.
func (o *reconciling) signer(cmd *cobra.Command, p profile.Profile, v *verify.Verifier, who whoSigns) (*sign.Signer, error) {
	switch {
	case who.token == nil && who.key == nil:
		return nil, verdict.Refuse(verdict.Usage, "--identity-token", "required to sign; use --identity-token %[1]s=FILE, or --key %[1]s=FILE", tokenReconciler)
	case len(p.Signing) == 0:
		return nil, verdict.Refuse(verdict.ConfigParse, p.Path, "signingConfig: missing, so nothing can be signed; add one")
	}
	services, err := sign.ParseServices(p.Signing, time.Now())
	if err != nil {
		return nil, err
	}
	c := sign.Config{
		Role: policy.Reconciler, Policy: p.Policy, Verifier: v, Services: services, Transport: who.transport, Clock: time.Now,
		Work: sign.Work{Patience: o.wait, Report: reportTo(loggerOf(cmd.Context()))},
	}
	if who.key != nil {
		return sign.NewKeyed(c, who.key)
	}
	c.Token = who.token.Token
	return sign.New(c)
}

// site opens the site, and with --confirm prepares it first. Without --confirm a
// site that is not prepared is returned without its contents.
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

// warn logs the desired states that have no effect under the policy of the profile.
func (b reconcilerParts) warn(cmd *cobra.Command) {
	floors := b.profile.Policy.Floors()
	for _, k := range slices.SortedFunc(maps.Keys(b.config.Wishes.Wanted), func(a, b feature.Key) int { return strings.Compare(a.String(), b.String()) }) {
		_, named := floors[k.Name]
		if requirement := k.Name == known.RequireProvenance || k.Name == known.RequireSignoff; requirement && !named {
			loggerOf(cmd.Context()).WarnContext(cmd.Context(), fmt.Sprintf("WARNING: %s is listed under desired, but the policy does not name it under features: the state of the feature has no effect under this policy", k.Name))
		}
	}
}

// ahead prints what the next pass would do.
func (o *reconciling) ahead(cmd *cobra.Command, b reconcilerParts) error {
	would, failed := b.config.Ahead(cmd.Context(), b.world)
	if err := errors.Join(failed, o.output.Passes(cmd.OutOrStdout(), would)); err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "nothing was done; add --confirm to make this pass")
	return nil
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

// featureTasks are the tasks of the features of Waybill: what is done, audited or counted
// when one is switched. Audits judge by the policy as it is written, because that
// is what counts when every feature is on.
func featureTasks(b reconcilerParts, written gate.Gate, rt http.RoundTripper) (map[feature.Key]reconcile.Deeds, error) {
	public := coverage.Registries{Repositories: b.config.Public, Transport: rt}
	releases := coverage.Releases{
		Versions: b.config.Releases,
		Open:     func(uri string) (store.Place, error) { return cloud.OpenPlace(uri, rt) },
	}
	by, err := written.One(profile.Staging, time.Time{})
	if err != nil {
		return nil, err
	}
	swept, err := cleanup.New(cleanup.Config{
		Repositories: b.config.Public, Verifier: written.Verifier(), Policy: b.profile.Policy,
		Open: func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, rt) },
	})
	if err != nil {
		return nil, err
	}
	key := func(name string) feature.Key { return feature.Key{Namespace: feature.CoreNamespace, Name: name} }
	one := func(task string, s reconcile.Sweep) map[string]reconcile.Sweep {
		return map[string]reconcile.Sweep{task: s}
	}
	all := map[feature.Key]reconcile.Deeds{
		key(known.RequireProvenance): {Sweeps: one(known.CoverageAudit, coverage.Provenance(public, by)), Dangling: reconcile.Nothing{}},
		key(known.RequireSignoff):    {Sweeps: one(known.SignoffAudit, coverage.Signoffs(releases, written)), Dangling: reconcile.Nothing{}},
		key(known.StatusPage):        {Dangling: reconcile.Nothing{}},
		key(known.KMSSigning):        {Dangling: reconcile.Nothing{}},
	}
	maps.Copy(all, swept.Deeds())
	return all, nil
}
