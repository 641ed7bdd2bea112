package policy

import (
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/policies"
)

// TestNarrow: what is kept is asked as before, the rest is off, and the policy
// that was narrowed does not change.
func TestNarrow(t *testing.T) {
	raw, err := policies.Read("kubernetes-release")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Parse(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := len(whole.cells[cell{Published, plan.Binary}].items)
	narrow := whole.Narrow(Signature)
	for _, class := range Judged() {
		for _, check := range []Check{Provenance, Signature, SBOM, Summary} {
			want := Off
			if check == Signature {
				want = whole.Asks(Published, class, check)
			}
			if got := narrow.Asks(Published, class, check); got != want {
				t.Errorf("%s of %s is %s, want %s", check, class, got, want)
			}
		}
		if len(narrow.NewSession().Demands(Published, class)) != 0 {
			t.Errorf("%s still has a level", class)
		}
		for _, it := range narrow.cells[cell{Published, class}].items {
			if it.name != string(Signature) {
				t.Errorf("%s still asks for %s", class, it.name)
			}
		}
	}
	if narrow.Digest() != whole.Digest() || len(whole.cells[cell{Published, plan.Binary}].items) != before || whole.Asks(Published, plan.Binary, Provenance) != Require {
		t.Error("the policy itself changed")
	}
	if again := whole.Narrow(Provenance, Signature, SBOM, Summary); !slices.Equal(again.NewSession().Demands(Published, plan.Binary), whole.NewSession().Demands(Published, plan.Binary)) || len(whole.NewSession().Demands(Published, plan.Binary)) == 0 {
		t.Error("with all checks kept the level is lost")
	}
}
