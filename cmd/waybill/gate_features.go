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

// featuresOfGate is what the help of the service says of features.
const featuresOfGate = `With features the service goes by what waybill feature reconcile keeps at a site,
a directory or a bucket, where the policy leaves it to that:

  features: {site: /srv/features, reportAs: gate}

What is promoted to somewhere, or is there, is judged by the policy as it counts
there: warned about while a feature is turned on or off, required when it is on,
and never less than the policy's floor. The states are read every half minute; a
state counts if the policy's reconciler signed the transition to it, and none
goes back. While the site does not answer, or what it has does not hold, the last
states count for ten minutes; after that nothing is decided: 503, and /readyz
says so. reportAs is the name under which the service reports what it found,
which the reconciler waits for. With --feature-gates EmitVSA=false no summaries
are signed; StatusPage has /statusz, and follows the site while the service runs.

With reconcile: FEATURES.yaml the service reconciles the features itself, as
waybill feature reconcile does, and signs transitions as the reconciler: give it
--identity-token reconciler=FILE. Of several replicas each has a file with an
identity of its own. What goes wrong there is logged, and ends no service.

`

// features is how the service goes by the features of its file; nil where that
// names none.
func (o *serving) features(cmd *cobra.Command, c serve.Config) (*serve.Features, error) {
	for _, name := range []featuregate.Feature{known.RequireProvenance, known.RequireSignoff} {
		if o.gates.ExplicitlySet(name) {
			return nil, verdict.Refuse(verdict.Usage, "--"+gatesFlag, "%s is a requirement of the policy: no flag switches it", name).
				Advise("name it under features in the policy, and switch it at the site")
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
		return nil, nil // the reconciler prepares it
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

// reconciles reports whether a service has a reconciler inside.
func reconciles(c serve.Config) bool { return c.Features != nil && c.Features.Reconcile != "" }

// reconciler is the one that runs inside the service, which is opened now, to
// tell what is wrong with it, and each time that it begins; nil where others do.
func (o *serving) reconciler(cmd *cobra.Command, use *serve.FeatureUse) (func(context.Context) error, error) {
	if use.Reconcile == "" {
		return nil, nil
	}
	r := &reconciling{as: o.as, confirm: !o.check, wait: signingPatience}
	open := func() (bench, error) {
		c, err := readFeatures(use.Reconcile)
		switch {
		case err != nil:
			return bench{}, err
		case strings.TrimSuffix(c.Site, "/") != strings.TrimSuffix(use.Site, "/"):
			return bench{}, verdict.Refuse(verdict.ConfigParse, use.Reconcile, "it keeps the features at %q, and the service goes by those at %q", c.Site, use.Site)
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
