package verdict

import (
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestInForce: a policy of which everything counted is itself; one of which
// something did not count is another, whoever counted in which order.
func TestInForce(t *testing.T) {
	policy := digest.Of(digest.SHA256, []byte("policy"))
	on := Feature{Name: "waybill/RequireProvenance", State: "On", Number: 2, Mode: "require"}
	warned := Feature{Name: "waybill/RequireProvenance", State: "TurningOn", Number: 1, Mode: "warn"}
	off := Feature{Name: "waybill/RequireSignoff", State: "Off", Mode: "off"}
	if got := InForce(policy, []Feature{on}); !got.Equal(policy) {
		t.Error("all of the policy counted, and it is another")
	}
	lowered := InForce(policy, []Feature{warned, off})
	if lowered.Equal(policy) || lowered.Equal(InForce(policy, []Feature{warned})) || lowered.Equal(InForce(digest.Of(digest.SHA256, nil), []Feature{warned, off})) {
		t.Error("what counted less goes by the name of something else")
	}
	if !lowered.Equal(InForce(policy, []Feature{off, on, warned})) {
		t.Error("the order, or what is required, changes the name")
	}
	var v Verdict
	v.AddFeatures(warned, on)
	v.AddFeatures(on, off)
	if want := []Feature{warned, on, off}; !slices.Equal(v.Features, want) {
		t.Errorf("%v, want %v", v.Features, want)
	}
}
