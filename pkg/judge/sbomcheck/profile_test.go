package sbomcheck_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestProfiles: a document with all elements lacks nothing, and one without an
// element lacks that one, by name, number and clause. Why it is unknown may be
// said instead.
func TestProfiles(t *testing.T) {
	const address = "Organization: Example (https://example.org)"
	document := func(change func(*spdx.Draft)) spdx.Document {
		doc, _ := document(t, "lantern", "program", func(d *spdx.Draft) {
			d.Tool, d.Author, d.Context = "waybill-v1.0.0", address, "Generation context: Build."
			d.Packages[0].Purpose, d.Packages[0].Licence, d.Packages[0].Supplier = spdx.Application, "MIT", address
			d.Packages = append(d.Packages, spdx.Package{
				ID: "SPDXRef-M", Name: "example.org/wick", Version: "v1.2.3", PURL: "pkg:golang/example.org/wick@v1.2.3", Originator: address,
				Licence: "ISC", Purpose: spdx.Library, Comment: sbomcheck.Unknown + "hash (it has none of its own)",
			})
			relate(d, "SPDXRef-Artifact", spdx.DependsOn, "SPDXRef-M", "")
			change(d)
		})
		return doc
	}
	for _, row := range []struct {
		change    func(*spdx.Draft)
		cisa, bsi string
	}{
		{func(*spdx.Draft) {}, "", ""},
		{func(d *spdx.Draft) { d.Author = "" }, "SBOM author: missing in the document", "address of the SBOM author: missing in the document"},
		{func(d *spdx.Draft) { d.Author = "Organization: Example" }, "", "address of the SBOM author"},
		{func(d *spdx.Draft) { d.Tool = "waybill" }, "SBOM tool and its version", ""},
		{func(d *spdx.Draft) { d.Context = "" }, "generation context", ""},
		{func(d *spdx.Draft) { d.Context = "Rebuild" }, "generation context", ""},
		{func(d *spdx.Draft) { d.Context = "See our Build page." }, "generation context", ""},
		{func(d *spdx.Draft) { d.Context = "No Generation context: Build." }, "generation context", ""},
		{func(d *spdx.Draft) { d.Context = "Generation context: Build or not." }, "generation context", ""},
		{func(d *spdx.Draft) { d.Context = "By hand.\nGeneration context: Analyzed (after the build)." }, "", ""},
		{func(d *spdx.Draft) { d.Context = "SBOM Type: Source" }, "", ""},
		{func(d *spdx.Draft) { d.Packages[1].Version = spdx.NoAssertion }, "version: missing in 1 of 2 packages", "version: missing in 1 of 2 packages"},
		{func(d *spdx.Draft) { d.Packages[1].Originator = "" }, "supplier: missing in 1 of 2 packages, the first: \"example.org/wick\"", "address of the supplier"},
		{func(d *spdx.Draft) { d.Packages[0].Supplier, d.Packages[1].Originator = "", "" }, "supplier: missing in 2 of 2 packages, the first: \"lantern\"", "address of the supplier"},
		{func(d *spdx.Draft) { d.Packages[1].Originator = "Organization: Example" }, "", "address of the supplier"},
		{func(d *spdx.Draft) {
			d.Packages[1].Originator = ""
			d.Packages[1].Comment += ", supplier (nothing names one)"
		}, "", ""},
		{func(d *spdx.Draft) { d.Packages[1].Comment = sbomcheck.Unknown + "hash ()" }, "hash", ""},
		{func(d *spdx.Draft) { d.Packages[1].Comment = sbomcheck.Unknown + "hash ( )" }, "hash", ""},
		{func(d *spdx.Draft) { d.Packages[1].Comment = sbomcheck.Unknown + "hash (" }, "hash", ""},
		{func(d *spdx.Draft) { d.Packages[1].Comment = sbomcheck.Unknown + "licence (unlike its hash (x))" }, "hash", ""},
		{func(d *spdx.Draft) {
			d.Packages[1].Comment = sbomcheck.Unknown + "licence (none, as said), hash (none)\n"
		}, "", ""},
		{func(d *spdx.Draft) { d.Tool = "my-tool" }, "SBOM tool and its version", ""},
		{func(d *spdx.Draft) { d.Tool = "my-tool-0.1" }, "", ""},
		{func(d *spdx.Draft) { d.Tool = "waybill-devel" }, "", ""},
		{func(d *spdx.Draft) { d.Packages[1].PURL = "" }, "identifier", "identifier"},
		{func(d *spdx.Draft) { d.Packages[1].Comment = "" }, "hash: missing in 1 of 2", ""},
		{func(d *spdx.Draft) { d.Packages[1].Comment = "hash (not in a line of unknowns)" }, "hash", ""},
		{func(d *spdx.Draft) { d.Packages[1].Comment, d.Packages[1].Verification = "", sha1 }, "", ""},
		{func(d *spdx.Draft) { d.Packages[0].Digests.SHA512 = digest.Digest{} }, "", "SHA-512: missing in the described component"},
		{func(d *spdx.Draft) {
			d.Packages[0].Digests.SHA512 = digest.Digest{}
			d.Packages[0].Comment = sbomcheck.Unknown + "hash (it was not computed), SHA-512 (it was not computed)"
		}, "", "SHA-512: missing in the described component"},
		{func(d *spdx.Draft) {
			d.Packages[0].FileName, d.Packages[0].Comment = "", sbomcheck.Unknown+"hash (it was not computed), file name (it has none)"
		}, "", "file name: missing in the described component"},
		{func(d *spdx.Draft) { // a source tree is no file
			d.Packages[0].FileName, d.Packages[0].Digests, d.Packages[0].Purpose = "", digest.Set{}, spdx.Source
			d.Packages[0].PURL, d.Packages[0].Comment = "pkg:generic/lantern@v1.0.0", sbomcheck.Unknown+"hash (it is a directory)"
		}, "", ""},
		{func(d *spdx.Draft) { d.Packages[1].Licence = "" }, "licence: missing in 1 of 2", "licence: missing in 1 of 2"},
		{func(d *spdx.Draft) { d.Relationships = d.Relationships[:1] }, "relationship: missing in 1 of 2", "relationship"},
		{func(d *spdx.Draft) { d.Packages[0].FileName = "" }, "", "file name"},
		{func(d *spdx.Draft) { d.Packages[1].Purpose = "" }, "", "primary purpose: missing in 1 of 2"},
	} {
		doc := document(row.change)
		for profile, want := range map[string]string{"cisa-2026": row.cisa, "bsi-2.1": row.bsi} {
			found := sbomcheck.Profiled(sbomcheck.Artifact{Name: "lantern", Document: doc}, profile)
			if want == "" && len(found) != 0 || want != "" && (len(found) != 1 || found[0].Code != "SBOM_PROFILE" || !strings.HasPrefix(found[0].Message, want)) {
				t.Errorf("%s: want %q, got %+v", profile, want, found)
			}
		}
	}
	if got := sbomcheck.Lacks(document(func(d *spdx.Draft) { d.Author = "" }), "spdx"); len(got) != 0 {
		t.Errorf("SPDX alone asks for none of these: %q", got)
	}
}
