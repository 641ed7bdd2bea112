package gate_test

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// everything is switches that leave a policy as it is.
type everything struct{}

func (everything) For(p policy.Policy, _ ...string) (policy.Policy, error) { return p, nil }

// TestUnderLeavesNothingOut: whoever adds a field to a request says here who
// fills it in, or has [gate.Under] do it.
func TestUnderLeavesNothingOut(t *testing.T) {
	p, err := profile.Load(profile.KubernetesSealed, profile.Reader{Now: time.Now(), Trust: embedded})
	if err != nil {
		t.Fatal(err)
	}
	p.Defects = append(p.Defects, waiver.List{})
	v, err := verify.NewWith(p.TrustRoot, p.Policy.Verification())
	if err != nil {
		t.Fatal(err)
	}
	asked, err := version.Parse("v1.31.2")
	if err != nil {
		t.Fatal(err)
	}
	files, err := store.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	images, err := registry.OpenRemote("registry.example.test/kubernetes", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	named := gate.Waivers{Lists: []waiver.List{{}}, Accept: []string{"late"}, Exceptions: []waiver.Exception{{}}}
	by := gate.Under(p, v, named, everything{}).WithSources(verify.Evidence{})
	whole := by.Release(asked, profile.Release, gate.Places{Files: files, Images: images}, time.Now())
	one, err := by.One(profile.Release, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		request any
		caller  []string // fields of the question, which no profile has
	}{
		{whole, []string{"Options", "FindSources", "Earlier"}}, // which the caller asks of Open
		{one, []string{"Version", "Commit", "Finder"}},
	} {
		r := reflect.ValueOf(row.request)
		for i := range r.NumField() {
			field := r.Type().Field(i).Name
			if r.Field(i).IsZero() != slices.Contains(row.caller, field) {
				t.Errorf("%s.%s: set %t", r.Type(), field, !r.Field(i).IsZero())
			}
		}
	}
	for _, w := range []gate.Waivers{whole.Waivers, one.Waivers, by.Waivers()} {
		if want := len(p.Defects) + len(named.Lists); len(w.Lists) != want || len(w.Accept) != 1 || len(w.Exceptions) != 1 {
			t.Errorf("%d lists, %d defects and %d exceptions, want %d, 1 and 1", len(w.Lists), len(w.Accept), len(w.Exceptions), want)
		}
	}
}

func embedded() (trust.Root, error) { return trust.Embedded(), nil }
