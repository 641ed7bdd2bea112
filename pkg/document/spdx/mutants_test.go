package spdx_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
)

// inLines is a document in lines with one relationship, and a file in a package.
const inLines = `SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: a
DocumentNamespace: https://example.test/a
Creator: Tool: a
Created: 2026-01-01T00:00:00Z
DocumentComment: <text>one
two</text>

PackageName: p
SPDXID: SPDXRef-p
PackageVersion: 1.0
PackageDownloadLocation: NOASSERTION
PackageChecksum: SHA256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
ExternalRef: PACKAGE-MANAGER purl pkg:generic/p@1.0

FileName: ./f
SPDXID: SPDXRef-f
FileChecksum: SHA1: da39a3ee5e6b4b0d3255bfef95601890afd80709
LicenseConcluded: LicenseRef-1

Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-p

LicenseID: LicenseRef-1
ExtractedText: <text>as it is</text>
`

// TestMutants: whatever is changed in a good document, it is read or refused.
func TestMutants(t *testing.T) {
	for _, good := range []string{foreign, inLines} {
		if _, report := spdx.Validate(good); report.Packages != 1 {
			t.Fatal(report.Faults)
		}
		seen := 0
		for raw := range bounds.Mutants([]byte(good), 1, 4000) {
			bounds.Within(t, len(raw), func() {
				if d, _ := spdx.Validate(string(raw)); len(d.Packages()) > 0 {
					seen++
				}
				_, _ = spdx.Parse(raw)
				_, _ = spdx.ParseTagValue(raw)
			})
		}
		if seen < 100 {
			t.Errorf("of 4000 mutants %d were read: they are refused too early to show anything", seen)
		}
	}
}
