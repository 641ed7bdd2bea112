package sbomcheck

import (
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
)

// TestVersionsOfMainModules: a document gives the version that the program
// records. Without one in the program it may give the release's, and the reverse.
func TestVersionsOfMainModules(t *testing.T) {
	raw, err := spdx.Encode(spdx.Draft{
		Name: "lantern", Namespace: "https://example.org/lantern", Created: time.Unix(1714557600, 0), Tool: "waybill",
		Packages:      []spdx.Package{{ID: "SPDXRef-Artifact", Name: "lantern", Version: "v1"}},
		Relationships: []spdx.Relationship{{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-Artifact"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := spdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		recorded, given string
		findings        int
	}{{"v1", "v1", 0}, {"", "v1", 0}, {"v1", "", 0}, {"", "", 0}, {"v2", "v1", 1}, {"", "v2", 1}, {"v2", "", 1}} {
		of := func(version string) map[string]map[string]bool {
			return map[string]map[string]bool{"example.org/lantern": {version: true}}
		}
		if got := mains(Artifact{Name: "lantern", Document: doc}, of(row.recorded), of(row.given)); len(got) != row.findings {
			t.Errorf("recorded %q, given %q: %+v, want %d findings", row.recorded, row.given, got, row.findings)
		}
	}
}
