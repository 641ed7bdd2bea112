package cyclonedx_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/cyclonedx"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var wick = digest.Of(digest.SHA256, []byte("wick"))

var lantern = `{
  "bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": "urn:uuid:1", "version": 1, "x-own": {},
  "metadata": {"timestamp": "2024-05-01T12:00:00+02:00",
    "tools": {"components": [{"type": "application", "name": "other", "version": "1"}]},
    "component": {"bom-ref": "a", "type": "file", "name": "lantern", "version": "v1", "hashes": [{"alg": "SHA-256", "content": "` + wick.Hex() + `"}]}},
  "components": [
    {"bom-ref": "m", "type": "library", "group": "example.test", "name": "wick", "version": "v1.2.3", "purl": "pkg:golang/example.test/wick@v1.2.3",
      "hashes": [{"alg": "SHA-1", "content": "DA39A3EE5E6B4B0D3255BFEF95601890AFD80709"}],
      "components": [{"bom-ref": "f", "type": "file", "name": "/bin/lantern"}]}
  ],
  "dependencies": [{"ref": "a", "dependsOn": ["m", "a service"]}]
}`

// TestParse reads what is compared with bytes.
func TestParse(t *testing.T) {
	for _, version := range []string{"1.4", "1.5", "1.6"} {
		raw := strings.Replace(lantern, `"1.5"`, `"`+version+`"`, 1)
		doc, err := cyclonedx.Parse([]byte(raw))
		if err != nil {
			t.Fatal(version, err)
		}
		name, sum := doc.Describes()
		if name != "lantern" || !sum.Equal(wick) || doc.DescribedVersion() != "v1" || doc.Created() != "2024-05-01T10:00:00Z" || string(doc.Raw()) != raw {
			t.Errorf("%s: describes %q %v, created %s", version, name, sum, doc.Created())
		}
		if p := doc.Packages(); len(p) != 2 || p[1].Name != "example.test/wick" || p[1].PURL == "" || doc.Files()[0].Name != "/bin/lantern" {
			t.Errorf("%s: packages %+v", version, p)
		}
		if r := doc.Relationships(); len(r) != 2 || r[1] != (spdx.Relationship{From: "SPDXRef-1", Type: spdx.DependsOn, To: "SPDXRef-2"}) {
			t.Errorf("%s: relationships %+v", version, r)
		}
		if c := doc.Checksums(); len(c) != 1 || c[0].Algorithm != "SHA1" || doc.Creators()[0] != "Tool: other-1" {
			t.Errorf("%s: checksums %+v", version, c)
		}
	}
}

// TestParseRefuses changes one fact of the document above.
func TestParseRefuses(t *testing.T) {
	for _, row := range []struct {
		code           verdict.Code
		says, old, new string
	}{
		{verdict.StatementParse, "want CycloneDX 1.4, 1.5 or 1.6", `"1.5"`, `"1.7"`},
		{verdict.StatementParse, "want CycloneDX 1.4, 1.5 or 1.6", `"1.5"`, `"1.3"`},
		{verdict.StatementParse, "want CycloneDX", `"CycloneDX"`, `"SPDX"`},
		{verdict.StatementParse, "JSON_DUP_KEY", `"name": "lantern"`, `"name": "lantern", "name": "lamp"`},
		{verdict.StatementParse, "JSON_UNKNOWN_FIELD", `"name": "lantern"`, `"name": "lantern", "Name": "lamp"`},
		{verdict.StatementParse, "line 7", `"group"`, `"group"; `},
		{verdict.StatementParse, "JSON_TRAILING", "}]\n}", "}]\n} {}"},
		{verdict.StatementParse, "two components have the bom-ref", `"bom-ref": "f"`, `"bom-ref": "m"`},
		{verdict.StatementParse, "no name", `"name": "/bin/lantern"`, `"name": ""`},
		{verdict.StatementParse, "two of them", `"hashes": [{"alg": "SHA-1"`, `"hashes": [{"alg": "SHA-1", "content": "00"}, {"alg": "SHA-1"`},
		{verdict.StatementParse, "hash SHA-256", wick.Hex(), "00"},
		{verdict.Limit, "more than 1000000 dependencies", `["m", "a service"]`, `["m"` + strings.Repeat(`,"m"`, 1_000_000) + `]`},
		{verdict.Limit, "LIMIT_DEPTH", `"x-own": {}`, `"x-own": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200)},
	} {
		bad := strings.Replace(lantern, row.old, row.new, 1)
		_, err := cyclonedx.Parse([]byte(bad))
		var refused *verdict.Error
		if bad == lantern || !errors.As(err, &refused) || refused.Finding.Code != row.code || !strings.Contains(err.Error(), row.says) || refused.Finding.Fix == "" {
			t.Errorf("%s: want %s, got %v", row.says, row.code, err)
		}
	}
}

// TestParseSize refuses a document of one byte too many, and reads its twin.
func TestParseSize(t *testing.T) {
	raw := append(make([]byte, 0, spdx.MaxSize+1), lantern...)
	raw = append(raw, bytes.Repeat([]byte(" "), spdx.MaxSize-len(raw))...)
	if _, err := cyclonedx.Parse(raw); err != nil {
		t.Error(err)
	}
	if _, err := cyclonedx.Parse(append(raw, ' ')); verdict.FindingOf("", err).Code != verdict.Limit {
		t.Errorf("want %s, got %v", verdict.Limit, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(lantern))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1<<16 {
			t.Skip()
		}
		if doc, err := cyclonedx.Parse(raw); (err == nil) == doc.IsZero() {
			t.Errorf("%v", err)
		}
	})
}
