package gate

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestSummed: the name of a sidecar says of which file it has which digest.
func TestSummed(t *testing.T) {
	set := digest.SetOf([]byte("lantern"))
	m := signedManifest{Manifest: manifest.Manifest{Artifacts: []manifest.Artifact{{Artifact: plan.Artifact{Name: "bin/lantern"}, Digests: set}}}}
	for sidecar, want := range map[string][2]string{
		"bin/lantern.sha256": {"bin/lantern", set.SHA256.Hex()},
		"bin/lantern.sha512": {"bin/lantern", set.SHA512.Hex()},
		"bin/lantern.sha1":   {"bin/lantern.sha1", ""},
		"bin/other.sha256":   {"bin/other", ""},
	} {
		if of, sum := m.summed(sidecar); of != want[0] || sum != want[1] {
			t.Errorf("%s: %q of %q, want %q of %q", sidecar, sum, of, want[1], want[0])
		}
	}
}
