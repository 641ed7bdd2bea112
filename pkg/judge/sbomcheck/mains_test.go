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

// TestNamesInPackageURLs: a package URL agrees with the name and the version
// beside it, which some tools write as NAME-VERSION, in lower case or without v.
func TestNamesInPackageURLs(t *testing.T) {
	for _, row := range []struct {
		purl, name, version string
		agrees              bool
	}{
		{"pkg:deb/debian/openssl@3.0.11", "openssl", "3.0.11", true},
		{"pkg:deb/debian/openssl@3.0.11", "openssl", "3.0.12", false},
		{"pkg:deb/debian/openssl@3.0.11", "openssl", spdx.NoAssertion, true},
		{"pkg:deb/debian/openssl@3.0.11", "libssl", "3.0.11", false},
		{"pkg:deb/debian/openssl@3.0.11", "openssl-3.0.11", "3.0.11", true},
		{"pkg:deb/debian/openssl@3.0.11", "openssl-3.0.12", "3.0.11", false},
		{"pkg:deb/debian/openssl", "openssl-3.0.12", "3.0.12", true},
		{"pkg:golang/example.org/lantern@v1.0.0", "example.org/Lantern", "1.0.0", true},
		{"pkg:golang/stdlib@1.26.0", "stdlib", "go1.26.0", true},
		{"pkg:golang/lantern@1.26.0", "lantern", "go1.26.0", false},
		{"pkg:npm/lantern@1.26.0", "another", "2", true}, // of a kind that is not compared
	} {
		name, version, known := parsePURL(row.purl)
		if got := !known || says(spdx.Package{Name: row.name, Version: row.version}, name, version); got != row.agrees {
			t.Errorf("%+v: %t", row, got)
		}
	}
}
