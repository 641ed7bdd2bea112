package known

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature"
)

// TestTable: the table is one that a program can be started with, and has one
// feature that the store may switch and one that it never may.
func TestTable(t *testing.T) {
	r := Registry()
	if n := len(r.Keys()); n != 7 {
		t.Errorf("%d features", n)
	}
	for name, dynamic := range map[string]bool{StatusPage: true, KMSSigning: false, RequireProvenance: false} {
		d, known := r.Definition(feature.Key{Namespace: feature.CoreNamespace, Name: name})
		if !known || d.Dynamic != dynamic {
			t.Errorf("%s: known %t, dynamic %t", name, known, d.Dynamic)
		}
	}
	space := Namespace()
	for i, d := range space.Features {
		if d.Name == KMSSigning {
			space.Features[i].Dynamic = true
		}
	}
	if _, err := feature.NewRegistry(space); err == nil {
		t.Error("a feature that needs a flag may be switched by the store")
	}
}
