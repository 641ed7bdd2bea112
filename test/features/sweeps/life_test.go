package sweeps

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/testing/lifecycle"
	"github.com/waybill-release/waybill/test/features/field"
	"github.com/waybill-release/waybill/test/lab"
)

// TestLife takes each feature on, through its use, and off again, over both
// kinds of registries.
func TestLife(t *testing.T) {
	l := lab.New(t)
	for name, kind := range map[string]field.Kind{"with referrers": field.Referrers, "without referrers": field.Listless} {
		for key, fixture := range field.Fixtures(t, l, kind) {
			t.Run(key.Name+" "+name, func(t *testing.T) {
				store, err := featurestore.OpenDirectory(t.TempDir())
				must(t, err)
				must(t, lifecycle.Walk(t.Context(), store, known.Registry(), key, fixture))
			})
		}
	}
}

// TestDeeds: every task that the table gives to these features can be done.
func TestDeeds(t *testing.T) {
	deeds := field.New(t, field.Referrers).Sweeps(t, repo).Deeds()
	for _, name := range []string{known.TraceAnnotations, known.EmitVSA, known.BundleReferrers} {
		key := feature.Key{Namespace: feature.CoreNamespace, Name: name}
		d, is := known.Registry().Definition(key)
		if !is || deeds[key].Dangling == nil {
			t.Fatalf("%s: known %t, %+v", name, is, deeds[key])
		}
		for _, j := range d.Jobs() {
			if deeds[key].Sweeps[j.Name] == nil && deeds[key].Holds[j.Name] == nil {
				t.Errorf("%s: nobody does %s", name, j.Name)
			}
		}
	}
}
