package spdx_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
)

// TestSomethingElse: what is no SPDX document of these forms is called by its
// name, with what to do; the twin, which says spdxVersion, is judged as one.
func TestSomethingElse(t *testing.T) {
	for text, says := range map[string]string{
		`{"@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld", "@graph": []}`:                "SPDX version 3",
		`{"bomFormat": "CycloneDX", "specVersion": "1.6"}`:                                            "-o spdx-json",
		`{"_type": "https://in-toto.io/Statement/v1", "predicate": {"spdxVersion": "SPDX-2.3"}}`:      "jq .predicate",
		`{"payloadType": "application/vnd.in-toto+json", "payload": "", "signatures": []}`:            "jq -r .payload",
		`{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "dsseEnvelope": {}}`:          "jq -r .dsseEnvelope.payload",
		`{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "messageSignature": {}}`:      "the signature of a file",
		`{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}`:             "waybill sbom generate",
		"<?xml version=\"1.0\"?>\n<rdf:RDF/>":                                                         "RDF/XML",
		`<?xml version="1.0"?><bom xmlns="http://cyclonedx.org/schema/bom/1.6"/>`:                     "CycloneDX in XML",
		"SPDXID: SPDXRef-DOCUMENT\nspdxVersion: SPDX-2.3\ndocumentNamespace: https://example.org/a\n": "YAML",
		`{"spdxVersion": "SPDX-2.3", "comment": "not CycloneDX"}`:                                     "property SPDXID is missing",
	} {
		doc, report := spdx.Validate(text)
		if !doc.IsZero() || len(report.Faults) == 0 || !strings.Contains(report.Faults[0].Message, says) {
			t.Errorf("%s: %+v", text, report.Faults)
		}
	}
}

// TestPlacesInLines: a fault of a document in lines is on a line.
func TestPlacesInLines(t *testing.T) {
	text := func(id, to string) string {
		return strings.Join([]string{
			"SPDXVersion: SPDX-2.3", "DataLicense: CC0-1.0", "SPDXID: SPDXRef-DOCUMENT", "DocumentName: a", "DocumentNamespace: https://example.org/a",
			"Creator: Tool: other", "Created: 2024-05-01T10:00:00Z", "DocumentComment: <text>of two lines", "PackageName: no package</text>", "",
			"PackageName: a", "SPDXID: SPDXRef-A", "PackageDownloadLocation: NOASSERTION", "FilesAnalyzed: false", "",
			"PackageName: b", "SPDXID: " + id, "PackageDownloadLocation: NOASSERTION", "FilesAnalyzed: false", "",
			"Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-A", "Relationship: SPDXRef-A CONTAINS " + to, "",
		}, "\n")
	}
	for _, row := range []struct{ id, to, place, says string }{
		{"SPDXRef-B", "SPDXRef-B", "", ""},
		{"SPDXRef-A", "SPDXRef-A", "line 16, packages[1]", "the first is packages[0]"},
		{"SPDXRef-B", "SPDXRef-C", "line 22, relationships[1]", "does not exist"},
	} {
		_, report := spdx.Validate(text(row.id, row.to))
		found := row.place == ""
		for _, f := range report.Faults {
			found = found || f.Place == row.place && strings.Contains(f.Message, row.says)
			if row.place == "" && f.Code() == "SBOM_GRAPH" {
				t.Errorf("the twin: %+v", f)
			}
		}
		if !found {
			t.Errorf("%s: %+v", row.place, report.Faults)
		}
	}
}
