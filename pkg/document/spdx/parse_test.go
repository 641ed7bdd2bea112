package spdx_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const foreign = `{
  "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
  "name": "lantern", "documentNamespace": "https://example.org/1",
  "creationInfo": {"created": "2024-05-01T10:00:00Z", "creators": ["Organization: Lantern", "Tool: other-1.0"]},
  "documentDescribes": ["SPDXRef-a"],
  "externalDocumentRefs": [{"externalDocumentId": "DocumentRef-old", "spdxDocument": "https://example.org/0",
    "checksum": {"algorithm": "SHA1", "checksumValue": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}}],
  "packages": [{"SPDXID": "SPDXRef-a", "name": "lantern", "downloadLocation": "NONE", "hasFiles": ["SPDXRef-f"],
    "checksums": [{"algorithm": "SHA256", "checksumValue": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}],
    "externalRefs": [{"referenceCategory": "PACKAGE_MANAGER", "referenceType": "purl", "referenceLocator": "pkg:generic/lantern"}]}],
  "files": [{"SPDXID": "SPDXRef-f", "fileName": "./f", "checksums": [
    {"algorithm": "SHA1", "checksumValue": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}]}],
  "relationships": [{"spdxElementId": "SPDXRef-a", "relationshipType": "OTHER", "relatedSpdxElement": "DocumentRef-old:SPDXRef-x"}]
}`

func TestParseForeign(t *testing.T) {
	d, err := spdx.Parse([]byte(foreign))
	if err != nil {
		t.Fatal(err)
	}
	name, sum := d.Describes()
	if name != "lantern" || sum.Hex()[:8] != "e3b0c442" {
		t.Errorf("describes %q %v", name, sum)
	}
	if refs := d.ExternalRefs(); len(refs) != 1 || !refs[0].SHA256.IsZero() || refs[0].Namespace != "https://example.org/0" {
		t.Errorf("external documents: %+v", refs)
	}
	if p := d.Packages(); len(p) != 1 || p[0].PURL != "pkg:generic/lantern" {
		t.Errorf("packages: %+v", p)
	}
	// Three: one written, two from the short forms.
	if r := d.Relationships(); len(r) != 3 {
		t.Errorf("relationships: %+v", r)
	}
}

// TestParseRefuses replaces one piece of the foreign document.
func TestParseRefuses(t *testing.T) {
	for _, row := range []struct{ reason, old, new string }{
		{`version "SPDX-2.2"`, `SPDX-2.3`, `SPDX-2.2`},
		{`data licence`, `CC0-1.0`, `MIT`},
		{`document identifier`, `"SPDXRef-DOCUMENT"`, `"SPDXRef-DOC"`},
		{`namespace ""`, `"https://example.org/1"`, `""`},
		{`want 1 or more elements`, `["Organization: Lantern", "Tool: other-1.0"]`, `[]`},
		{`time of creation`, `10:00:00Z`, `10:00:00+02:00`},
		{`two elements have the identifier SPDXRef-a`, `"SPDXID": "SPDXRef-f"`, `"SPDXID": "SPDXRef-a"`},
		{`two elements have the identifier SPDXRef-DOCUMENT`, `"SPDXID": "SPDXRef-f"`, `"SPDXID": "SPDXRef-DOCUMENT"`},
		{`"SPDXRef-gone" does not exist`, `"documentDescribes": ["SPDXRef-a"]`, `"documentDescribes": ["SPDXRef-gone"]`},
		{`"SPDXRef-gone" does not exist`, `"hasFiles": ["SPDXRef-f"]`, `"hasFiles": ["SPDXRef-gone"]`},
		{`"DocumentRef-new:SPDXRef-x" does not exist`, `DocumentRef-old:`, `DocumentRef-new:`},
		{`describes nothing`, `"documentDescribes": ["SPDXRef-a"],`, ``},
		{`a-f are allowed`, `e3b0c442`, `E3B0C442`},
		{`00`, `"checksums": [{"alg`, `"checksums": [{"algorithm": "SHA256", "checksumValue": "00"}, {"alg`},
		{`no SHA1`, "\n    {\"algorithm\": \"SHA1\"", "\n    {\"algorithm\": \"MD6\""},
		{`given twice`, `"checksums": [{"alg`, `"checksums": [{"algorithm": "SHA256", "checksumValue": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}, {"alg`},
		{`contains itself`, `"relationshipType": "OTHER", "relatedSpdxElement": "DocumentRef-old:SPDXRef-x"`, `"relationshipType": "CONTAINED_BY", "relatedSpdxElement": "SPDXRef-f"`},
		{`JSON_DUP_KEY`, `"name": "lantern", "doc`, `"name": "lantern", "name": "other", "doc`},
		{`JSON_UNKNOWN_FIELD`, `"name": "lantern", "doc`, `"Name": "other", "doc`},
		{`JSON_TRAILING`, "]\n}", "]\n} {}"},
		{`ENCODING`, `other-1.0`, "other-\xff"},
		{`JSON_TYPE`, `"documentDescribes": ["SPDXRef-a"]`, `"documentDescribes": [1]`},
	} {
		if !strings.Contains(foreign, row.old) {
			t.Fatalf("the row %q changes nothing", row.old)
		}
		_, err := spdx.Parse([]byte(strings.Replace(foreign, row.old, row.new, 1)))
		code := verdict.StatementParse
		for _, graph := range []string{"two elements", "does not exist", "describes nothing", "contains itself"} {
			if strings.Contains(row.reason, graph) {
				code = verdict.SBOMGraph
			}
		}
		refused(t, err, code, row.reason)
	}
}

func TestParseLimits(t *testing.T) {
	_, err := spdx.Parse(make([]byte, spdx.MaxSize+1))
	refused(t, err, verdict.Limit, "the limit is")
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	_, err = spdx.Parse([]byte(strings.Replace(foreign, `"name"`, `"deep": `+deep+`, "name"`, 1)))
	refused(t, err, verdict.Limit, "LIMIT_DEPTH")
}

func TestZeroDocumentSaysNothing(t *testing.T) {
	var d spdx.Document
	name, sum := d.Describes()
	if !d.IsZero() || name != "" || !sum.IsZero() || len(d.Packages())+len(d.Files())+len(d.Relationships()) > 0 {
		t.Error("a document that nobody parsed says something")
	}
}

// TestDescribesSeveral: no one element can stand for the document.
func TestDescribesSeveral(t *testing.T) {
	raw := strings.Replace(foreign, `["SPDXRef-a"]`, `["SPDXRef-a", "SPDXRef-f"]`, 1)
	d, err := spdx.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if name, sum := d.Describes(); name != "" || !sum.IsZero() {
		t.Errorf("describes %q %v", name, sum)
	}
}

// TestParseMangled cuts the document everywhere and bumps every byte. No cut
// parses, and what still parses is what was given.
func TestParseMangled(t *testing.T) {
	for i := range len(foreign) {
		if _, err := spdx.Parse([]byte(foreign[:i])); err == nil {
			t.Fatalf("cut after %d bytes it still parses", i)
		}
		bumped := []byte(foreign)
		bumped[i]++
		if d, err := spdx.Parse(bumped); err == nil && string(d.Raw()) != string(bumped) {
			t.Fatalf("byte %d: the document carries other bytes", i)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(foreign))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() {
			if d, err := spdx.Parse(raw); err == nil {
				// The views never panic on what was accepted.
				d.Packages()
				d.Files()
				d.ExternalRefs()
				d.Relationships()
			}
		})
	})
}
