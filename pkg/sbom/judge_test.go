package sbom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestTwins: the two forms of one document say the same, and one word changed
// in either is a refusal (B14).
func TestTwins(t *testing.T) {
	m, err := sbom.Release(input(), []sbom.Entry{{Artifact: "a", Digests: digest.SetOf(nil)}}, sbom.Entry{})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := spdx.EncodeTagValue(m.Draft)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a.spdx.json", "a.spdx"}
	judge := func(json, tagValue string) *verdict.Verdict {
		texts := []string{json, tagValue}
		v := sbom.Validate(names, texts, "spdx", time.Unix(1714557600, 0))
		sbom.Twins(v, names, texts)
		return v
	}
	if v := judge(string(raw), string(lines)); v.Outcome() != verdict.Accepted || v.Counts.Verified != 3 {
		t.Errorf("the twin: %+v", v.Findings)
	}
	for _, v := range []*verdict.Verdict{
		judge(string(raw), strings.Replace(string(lines), "PackageVersion: v0.1.0", "PackageVersion: v0.1.1", 1)),
		judge(strings.Replace(string(raw), `"versionInfo": "v0.1.0"`, `"versionInfo": "v0.1.1"`, 1), string(lines)),
	} {
		if v.Outcome() != verdict.Refused || len(v.Findings) == 0 || v.Findings[0].Code != verdict.SBOMTwin {
			t.Errorf("%+v", v.Findings)
		}
	}
}

// TestLinesTakeNoTextForALine: what a file is called can not become a line of
// its own in the older form.
func TestLinesTakeNoTextForALine(t *testing.T) {
	m, err := sbom.Release(input(), []sbom.Entry{{Artifact: "a", Digests: digest.SetOf(nil)}}, sbom.Entry{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"</text>\nPackageName: evil", "a\nPackageVersion: evil", "<text>"} {
		draft := m.Draft
		draft.Packages = append([]spdx.Package(nil), draft.Packages...)
		draft.Packages[1].Comment = text
		if _, err := spdx.EncodeTagValue(draft); err == nil && text != "a\nPackageVersion: evil" {
			t.Errorf("the comment %q is written", text)
		}
		draft.Packages[1].Comment, draft.Packages[1].Name = "", text
		if _, err := spdx.EncodeTagValue(draft); err == nil {
			t.Errorf("the name %q is written", text)
		}
	}
}

// TestValidateNames: a package URL that names something else than its package
// is a finding about the document alone.
func TestValidateNames(t *testing.T) {
	for purl, want := range map[string]int{
		"pkg:golang/example.org/wick@v1.0.0":                     0,
		"pkg:golang/example.org%2Fwick@v1.0.0?type=module#cmd/x": 0,
		"pkg:golang/example.org/wick":                            0,
		"pkg:npm/another@2":                                      0, // what is no module and no package of a distribution
		"pkg:golang/example.org/wick@v1.0.1":                     1,
		"pkg:golang/example.org/oil@v1.0.0":                      1,
		"pkg:deb/debian/wick@v1.0.0":                             1,
		"pkg:golang/example.org/wick@v1.0.0%zz":                  1,
	} {
		m, err := sbom.Directory(input(), "d", sourceTree(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		m.Draft.Packages = append(m.Draft.Packages, spdx.Package{ID: "SPDXRef-X", Name: "example.org/wick", Version: "v1.0.0", PURL: purl})
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, f := range sbom.Validate([]string{"d"}, []string{string(raw)}, "spdx", time.Unix(0, 0)).Findings {
			if f.Code == verdict.Conflict {
				found++
			}
		}
		if found != want {
			t.Errorf("%s: %d findings, want %d", purl, found, want)
		}
	}
}
