package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/featuregate"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxServiceFile bounds the files of the service.
const maxServiceFile = 4 << 20

// serving are the options of gate serve and gate proxy.
type serving struct {
	proxy bool
	check bool
	as    identities
	gates *componentbase.Gate
	// sources are read at the start and at each reload.
	sources cli.Sources
}

func servingCommand(name string, proxy bool) *cobra.Command {
	o := &serving{proxy: proxy, gates: newGate()}
	cmd := newCommand(name, cobra.ExactArgs(1), o.run)
	cmd.Long = strings.Replace(cmd.Long, "{drain}", serve.DrainTime.String(), 1)
	cmd.Flags().String(logFlag, "json", "json for programs, text for people, as with --check; the record of decisions is always JSON")
	o.as.addFlags(cmd, pipeline.TokenVerifier, tokenReconciler)
	o.sources.AddFlags(cmd)
	addGatesFlag(cmd, o.gates)
	cmd.Flags().BoolVar(&o.check, "check", false, "read the configuration, report what is wrong, and exit")
	return cmd
}

func (o *serving) run(cmd *cobra.Command, args []string) error {
	least := slog.LevelInfo
	if o.check {
		least = slog.LevelWarn // the answer is on stdout
	}
	logger, err := ui.NewLogger(cmd.ErrOrStderr(), formatOf(cmd), least)
	if err != nil {
		return verdict.Wrap(verdict.Usage, "--log-format", err)
	}
	raw, err := store.ReadNamed(args[0], maxServiceFile)
	if err != nil {
		return err
	}
	c, err := serve.ParseConfig(raw, filepath.Dir(args[0]))
	if err != nil {
		return verdict.InFile(args[0], err)
	}
	if (c.Proxy != nil) != o.proxy {
		return verdict.InFile(args[0], verdict.Refuse(verdict.ConfigParse, "service", "proxy: waybill gate proxy needs it, and waybill gate serve does not take it"))
	}
	world, err := serviceWorld(c, o.as, o.sources, logger)
	if err != nil {
		return err
	}
	world.Record, world.Gate, world.Cluster = cmd.ErrOrStderr(), o.gates, c.Cluster
	if world.Features, err = o.features(cmd, c); err != nil {
		return err
	}
	s, err := serve.New(cmd.Context(), world, c.ServerLimits())
	if err != nil {
		return err
	}
	if o.check {
		err := errors.Join(c.Check(), s.Check(cmd.Context()))
		if err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: profile %s, callers %s; would listen at %s for callers and at %s for operators\n", args[0], c.Profile, c.Callers, c.Listen, c.Admin)
		}
		return err
	}
	gcPercent(serveGCPercent)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	return s.Serve(cmd.Context(), c, reload, func(callers, admin string) {
		fmt.Fprintf(cmd.OutOrStdout(), "callers %s\nadmin   %s\n", callers, admin)
	})
}

// serveGCPercent is the GOGC of the service: a decision allocates much and keeps little,
// and the usual 100 costs a tenth more CPU. GOMEMLIMIT bounds the memory.
const serveGCPercent = 400

// serviceWorld makes the connections of the service. Callers name the registries,
// so the service reaches only those that the grants name: nothing else inside of
// our network.
func serviceWorld(c serve.Config, as identities, sources cli.Sources, logger *slog.Logger) (serve.World, error) {
	// Allow as many connections to a registry as requests are served at once.
	rt := transport.New(transport.Config{UserAgent: "waybill/" + cli.BuildVersion(), PerHost: serve.AtOnce})
	found, err := as.from(token.World{Transport: rt, Env: os.Getenv, Clock: time.Now})
	verifier := found[pipeline.TokenVerifier]
	switch {
	case err != nil:
		return serve.World{}, err
	case c.Summaries && verifier == nil:
		return serve.World{}, verdict.Refuse(verdict.Usage, "--identity-token", "summaries: true needs a token of the verifier, and none was given").
			Advise("give --identity-token verifier=FILE or --identity verifier=SOURCE, or remove summaries from SERVICE.yaml")
	case !c.Summaries && verifier != nil:
		return serve.World{}, verdict.Refuse(verdict.Usage, "--identity-token", "a token of the verifier was given, but SERVICE.yaml does not have summaries: true; leave one out or add the other")
	}
	if (found[tokenReconciler] != nil) != (c.Features != nil && c.Features.Reconcile != "") {
		return serve.World{}, verdict.Refuse(verdict.Usage, "--identity-token", "a token of the reconciler and features.reconcile in SERVICE.yaml need each other, and only one of them was given").
			Advise("give --identity-token reconciler=FILE or --identity reconciler=SOURCE to a service that reconciles, and to no other")
	}
	w := serve.World{
		Load: func(ctx context.Context) (serve.Basis, error) { return loadBasis(ctx, c, sources, verifier) },
		Open: func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, rt) },
		Keys: serve.IssuerKeys(rt), Clock: time.Now, Version: cli.BuildVersion(), Log: logger, Proxy: c.Proxy,
	}
	if c.Approvals != "" {
		w.Approvals, err = openLedger(c.Approvals, rt)
	}
	return w, err
}

// openLedger opens the place where used approvals are recorded. It is read with the
// same credentials as it is written.
func openLedger(uri string, rt http.RoundTripper) (serve.Ledger, error) {
	w, err := openWriter(uri, rt)
	if err != nil {
		return serve.Ledger{}, err
	}
	if both, is := w.(store.Place); is {
		return serve.Ledger{Place: both, Writer: w}, nil
	}
	at, err := store.Open(uri, rt)
	return serve.Ledger{Place: at, Writer: w}, err
}

// loadBasis reads what decisions depend on: profile, callers and known defects.
func loadBasis(ctx context.Context, c serve.Config, sources cli.Sources, verifier token.Source) (serve.Basis, error) {
	by, err := gate.Open(ctx, c.Profile, gate.Opening{
		Reader: profile.Reader{Rules: rules(), Now: time.Now(), Trust: (&cli.Trust{}).Reader(ctx)}, Transport: cli.Transport(false),
		Sources: sources.Summaries, Declarations: sources.Declarations,
	})
	if err != nil {
		return serve.Basis{}, err
	}
	p := by.Profile()
	raw, err := store.ReadNamed(c.Callers, maxServiceFile)
	if err != nil {
		return serve.Basis{}, err
	}
	b := serve.Basis{RootFrom: time.Now()}
	if b.Callers, err = caller.Parse(raw); err != nil {
		return serve.Basis{}, verdict.InFile(c.Callers, err)
	}
	for _, l := range p.Defects {
		b.Defects = digest.Of(digest.SHA256, []byte(b.Defects.String()+l.Digest().String()))
	}
	// The service applies features to the policy for each question.
	if b.PolicyRequest, err = by.One(profile.Staging, time.Time{}); err == nil && c.Summaries {
		b.Summaries, err = summaries(p, by.Verifier(), verifier)
	}
	return b, err
}

// summaries prepares the signing of summaries, as the profile says.
func summaries(p profile.Profile, v *verify.Verifier, from token.Source) (serve.Summaries, error) {
	if p.Records.Verifier == "" || len(p.Signing) == 0 {
		return serve.Summaries{}, verdict.Refuse(verdict.ConfigParse, p.Path, "signingConfig and records: missing; to sign summaries, the service needs signingConfig, records.verifier and records.policy")
	}
	services, err := sign.ParseServices(p.Signing, time.Now())
	if err != nil {
		return serve.Summaries{}, err
	}
	signer, err := sign.New(sign.Config{
		Role: policy.Verifier, Policy: p.Policy, Verifier: v, Services: services, Transport: cli.Transport(false), Token: from.Token, Clock: time.Now,
	})
	made := maker()
	return serve.Summaries{Signer: signer, Verifier: vsa.Verifier{ID: p.Records.Verifier, Version: map[string]string{"waybill": made.Version}}, Policy: p.Records.Policy}, err
}

// features makes the features of the service, as its file configures them; nil if
// it configures none.
func (o *serving) features(cmd *cobra.Command, c serve.Config) (*serve.Features, error) {
	for _, name := range []featuregate.Feature{known.RequireProvenance, known.RequireSignoff} {
		if o.gates.ExplicitlySet(name) {
			return nil, verdict.Refuse(verdict.Usage, "--"+gatesFlag, "%s is a requirement of the policy, which no flag can switch", name).
				Advise("name it under features in the policy, and set it in FEATURES.yaml")
		}
	}
	use := c.Features
	if use == nil {
		return nil, nil
	}
	loop, err := o.reconciler(cmd, use)
	if err != nil {
		return nil, err
	}
	if o.check && loop != nil && featurestore.Unprepared(use.Site) {
		return nil, nil // the reconciler will prepare it
	}
	site, err := openSite(use.Site, false)
	if err != nil {
		return nil, err
	}
	v := featureVersion()
	if use.ReportAs != "" {
		err = o.gates.InitReporter(componentbase.Reporter{Store: site.Features, Namespace: feature.CoreNamespace, Identity: use.ReportAs, Version: v})
		if err != nil {
			return nil, err
		}
	}
	return &serve.Features{
		Site: use.Site, Store: site.Features, Identity: use.ReportAs, Version: v.String(), Loop: loop,
		Read: func(ctx context.Context, b serve.Basis) (serve.Switches, error) {
			s, err := effective.Read(ctx, effective.Config{Site: site, Policy: b.Policy, Verifier: b.Verifier})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}, nil
}

// reconciler returns the loop of the reconciler that runs inside the service; nil if
// none does. Its configuration is opened once now, to report what is wrong with it,
// and again each time that the loop starts.
func (o *serving) reconciler(cmd *cobra.Command, use *serve.FeatureUse) (func(context.Context) error, error) {
	if use.Reconcile == "" {
		return nil, nil
	}
	r := &reconciling{as: o.as, confirm: !o.check, wait: signingPatience}
	open := func() (reconcilerParts, error) {
		c, err := readFeatures(use.Reconcile)
		switch {
		case err != nil:
			return reconcilerParts{}, err
		case strings.TrimSuffix(c.Site, "/") != strings.TrimSuffix(use.Site, "/"):
			return reconcilerParts{}, verdict.Refuse(verdict.ConfigParse, use.Reconcile, "the file has the site %q, but the service has the site %q; name the same site in both", c.Site, use.Site)
		}
		return r.open(cmd, c)
	}
	if _, err := open(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		b, err := open()
		if err != nil {
			return err
		}
		one, err := b.config.Reconciler(b.world)
		if err != nil {
			return err
		}
		passes(ctx, loggerOf(cmd.Context()), b.config, one)
		return nil
	}, nil
}
