package main

import (
	"maps"
	"net/http"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/cleanup"
	"github.com/waybill-release/waybill/pkg/govern/feature/coverage"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
)

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
