package main

import (
	"context"

	"github.com/waybill-release/waybill/pkg/feature"
	"github.com/waybill-release/waybill/pkg/feature/gates"
	"github.com/waybill-release/waybill/pkg/feature/switches"
	"github.com/waybill-release/waybill/pkg/gateway"
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

`

// gateFeatures is how a service goes by the features of its file, with what the
// gates of the program say; nil where the file names none.
func gateFeatures(c gateway.Config, g *gates.Gate) (*gateway.Features, error) {
	use := c.Features
	if use == nil {
		return nil, nil
	}
	site, err := openSite(use.Site, false)
	if err != nil {
		return nil, err
	}
	v := featureVersion()
	if use.ReportAs != "" {
		err = g.InitReporter(gates.Reporter{Store: site.Features, Namespace: feature.CoreNamespace, Identity: use.ReportAs, Version: v})
		if err != nil {
			return nil, err
		}
	}
	return &gateway.Features{
		Site: use.Site, Store: site.Features, Identity: use.ReportAs, Version: v.String(),
		Read: func(ctx context.Context, b gateway.Basis) (gateway.Switches, error) {
			s, err := switches.Read(ctx, switches.Config{Site: site, Policy: b.Policy, Verifier: b.Verifier})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}, nil
}
