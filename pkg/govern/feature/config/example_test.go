package config_test

import (
	"context"
	"fmt"
	"os"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// unsigned stands for the signer of a program, which is a [config.Signer].
type unsigned struct{}

func (unsigned) Ready(context.Context) error { return nil }

func (unsigned) Sign(_ context.Context, name string, _ intoto.Statement) (string, error) {
	return plan.BundleName(name), nil
}

// A program with a feature of its own has a namespace of its own, says what the
// feature's tasks do, and reconciles it by a file of the same form.
func Example() {
	registry, err := feature.NewRegistry(feature.Namespace{Name: "fleet", Features: []feature.Definition{{
		Name: "Drain", About: "a cluster is drained before it is upgraded",
		Versions: []feature.Version{{Since: known.Newest(), Stage: feature.Beta, Default: feature.Off}},
		Dynamic:  true,
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := config.ParseConfig([]byte(`apiVersion: waybill/v1
kind: Features
site: features
profile: profile.yaml
identity: fleet-0
reporters: [{identity: upgrader, every: 24h, namespace: fleet}]
desired: {fleet/Drain: {state: "On", scope: [registry.example.test/prod]}}
`), ".", registry)
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "features-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	site, err := madeSite(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := c.Reconciler(config.World{
		Site: site, Registry: registry, Version: known.Newest(), Signer: unsigned{},
		Deeds: map[feature.Key]reconcile.Deeds{{Namespace: "fleet", Name: "Drain"}: {Dangling: reconcile.Nothing{}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		did, err := r.Once(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, line := range config.Lines(did) {
			fmt.Println(line)
		}
	}
	// Output:
	// fleet/Drain  Off: announced
	// fleet/Drain  TurningOn: Off to TurningOn
	//   left WaitForUses
}

// madeSite is a site in a directory that is there.
func madeSite(dir string) (featurestore.Site, error) {
	if err := featurestore.MakeSite(dir); err != nil {
		return featurestore.Site{}, err
	}
	return featurestore.OpenSite(dir, openPart)
}
