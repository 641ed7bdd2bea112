package spdx_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
)

// lines is a document of another tool, in an order that the library does not
// accept: a reference to another document behind the creator, and a snippet
// behind a package.
const lines = `SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: lantern
DocumentNamespace: https://example.test/lantern
Creator: Tool: other-1.0
Created: 2024-05-01T12:00:00Z
ExternalDocumentRef: DocumentRef-old https://example.test/old SHA1: da39a3ee5e6b4b0d3255bfef95601890afd80709
DocumentComment: <text>Creator: none
of these</text>

FileName: ./wick.c
SPDXID: SPDXRef-f
FileChecksum: SHA1: da39a3ee5e6b4b0d3255bfef95601890afd80709

PackageName: lantern
SPDXID: SPDXRef-a
PackageDownloadLocation: NOASSERTION
PackageSupplier: NOASSERTION
PackageVersion: 1

PackageName: lamp
SPDXID: SPDXRef-b
PackageDownloadLocation: NONE
FilesAnalyzed: false

SnippetSPDXID: SPDXRef-s
SnippetFromFileSPDXID: SPDXRef-f
SnippetByteRange: 1:2
SnippetComment: <text>PackageName: none

of these</text>

Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-a
Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-b
Relationship: SPDXRef-a CONTAINS SPDXRef-b
Relationship: SPDXRef-b CONTAINS SPDXRef-a
Relationship: SPDXRef-f GENERATES SPDXRef-s
`

// TestStandard: what the specification permits is no fault of it, although our
// own documents must not have it.
func TestStandard(t *testing.T) {
	doc, report := spdx.Validate(lines)
	if faults := report.Standard(); len(faults) != 0 || doc.IsZero() || report.Err() != nil {
		t.Errorf("a permitted document: %v, %v", faults, report.Err())
	}
	for _, version := range []string{"SPDX-2.1", "SPDX-2.2"} {
		if old, report := spdx.Validate(strings.Replace(lines, "SPDX-2.3", version, 1)); old.IsZero() || len(report.Standard()) != 0 {
			t.Errorf("%s: %v", version, report.Standard())
		}
	}
	if got := rules(report); got["subject"] != 1 || got["containment"] != 1 {
		t.Errorf("rules of ours: %v", got)
	}
	if got := doc.ExternalRefs(); len(got) != 1 || len(doc.Packages()) != 2 || string(doc.Raw()) != lines {
		t.Errorf("read otherwise: %v", got)
	}
	if _, err := spdx.ParseTagValue([]byte(lines)); err == nil || !strings.Contains(err.Error(), "contains itself") {
		t.Errorf("a document of a release may contain itself: %v", err)
	}
	for _, row := range [][3]string{ // each changes one fact, and is refused
		{"relationship", "GENERATES SPDXRef-s", "GENERATES SPDXRef-t"},
		{"identifier", "SnippetSPDXID: SPDXRef-s", "SnippetSPDXID: SPDXRef-a"},
		{"form", "SPDXVersion: SPDX-2.3", "SPDXVersion: SPDX-2.0"},
		{"form", "SnippetByteRange", "SnippetBiteRange"},
		{"form", "SHA1: da39a3ee5e6b4b0d3255bfef95601890afd80709\nDoc", "SHA1\nDoc"},
		{"form", "SPDXVersion: SPDX-2.3", "SPDXVersion: SPDX-2.2\nSPDXVersion: SPDX-2.3"},
		{"form", "PackageVersion: 1", "PackageVersion: 1\nPackageVersion: 2"},
		{"form", "Relationship: SPDXRef-f", "SPDXVersion: SPDX-2.3\nRelationship: SPDXRef-f"},
		{"form", "SnippetComment: <text>", "SnippetComment: "},
		{"form", "none\n\nof these</text>", "none\n\nof these"},
	} {
		bad := strings.Replace(lines, row[1], row[2], 1)
		if _, report := spdx.Validate(bad); bad == lines || rules(report)[spdx.Rule(row[0])] == 0 || len(report.Standard()) == 0 || report.Err() == nil {
			t.Errorf("%s: %v", row[2], report.Faults)
		}
	}
}

// TestLinesOfALongText: reading takes time in proportion to the length, also of
// one text with many lines, and of one long line.
func TestLinesOfALongText(t *testing.T) {
	const mark = "<text>Creator: none\n"
	for _, text := range []string{strings.Repeat("wick\n", 1<<20), strings.Repeat("wick", 1<<20)} {
		began := time.Now()
		doc, report := spdx.Validate(strings.Replace(lines, mark, "<text>"+text, 1))
		if took := time.Since(began); doc.IsZero() || took > time.Minute {
			t.Errorf("after %s: %v", took, report.Err())
		}
		if _, report := spdx.Validate(strings.Replace(lines, mark+"of these</text>", "<text>"+text, 1)); report.Err() == nil {
			t.Error("a text that does not end is read")
		}
	}
}

// FuzzLines: no text in the tag-value form makes a reader panic, and what is
// accepted keeps its bytes.
func FuzzLines(f *testing.F) {
	f.Add(lines)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 || spdx.FormOf(text) != "tag-value" {
			t.Skip()
		}
		if doc, report := spdx.Validate(text); doc.IsZero() == (report.Err() == nil) || !doc.IsZero() && string(doc.Raw()) != text {
			t.Errorf("%q: %v", text, report)
		}
	})
}
