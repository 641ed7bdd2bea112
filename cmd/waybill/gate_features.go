package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/featuregate"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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

// reconciles reports whether a service also runs a reconciler.
func reconciles(c serve.Config) bool { return c.Features != nil && c.Features.Reconcile != "" }

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
