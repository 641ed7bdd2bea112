package manifest_test

import (
	"encoding/json"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// TestPackslipFormats: an installer unpacks archives, takes programs as they are, and
// does not know other files.
func TestPackslipFormats(t *testing.T) {
	m := lantern(t)
	m.Artifacts = []manifest.Artifact{file("lantern", plan.Binary), file("lantern.exe", plan.Binary), file("lantern.tar.gz", plan.Archive), file("lantern.txt", plan.Other)}
	slip := plan.Artifact{Name: "packslip.sigstore.json", Class: plan.Signature}
	s, err := m.ForReaders(plan.Plan{Repository: "https://example.test/lantern"}, slip, intoto.Statement{}, identity.Identity{Issuer: "https://issuer.example", Subject: "release@example.test", Type: identity.Email})
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Predicate struct {
			Artifacts []struct{ Name, Format string }
		}
	}
	if err := json.Unmarshal(s.Raw(), &said); err != nil || len(said.Predicate.Artifacts) != 4 {
		t.Fatalf("%v: %s", err, s.Raw())
	}
	want := map[string]string{"lantern": "raw", "lantern.exe": "raw", "lantern.tar.gz": "tar.gz", "lantern.txt": "file"}
	for _, a := range said.Predicate.Artifacts {
		if a.Format != want[a.Name] {
			t.Errorf("%s has the format %q, want %q", a.Name, a.Format, want[a.Name])
		}
	}
}
