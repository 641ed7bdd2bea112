package sbom_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/cyclonedx"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestCycloneDX: a CycloneDX document is compared with the bytes as an SPDX
// document of another tool is. Each row changes one fact.
func TestCycloneDX(t *testing.T) {
	raw := compile(t, ".", "./testdata/reader")
	c := sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}
	m, err := sbom.Binary(input(), "reader", c)
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	for _, row := range []struct {
		name   string
		change func(subject object, list *[]object)
		code   verdict.Code
	}{
		{"the twin", func(object, *[]object) {}, ""},
		{"of other bytes", func(s object, _ *[]object) {
			s["hashes"] = []object{{"alg": "SHA-256", "content": m.Digests.SHA512.Hex()[:64]}}
		}, verdict.SBOMSubject},
		{"of no bytes", func(s object, _ *[]object) { delete(s, "hashes") }, verdict.SBOMSubject},
		{"a module left out", func(_ object, list *[]object) { *list = (*list)[:len(*list)-1] }, verdict.SBOMIncomplete},
		{"a module that is not in it", func(_ object, list *[]object) {
			*list = append(*list, object{"type": "library", "name": "example.org/more", "version": "v1.0.0", "purl": "pkg:golang/example.org/more@v1.0.0"})
		}, verdict.Conflict},
		{"another version of a module", func(_ object, list *[]object) {
			last := (*list)[len(*list)-1]
			last["purl"], last["version"] = last["purl"].(string)+"9", last["version"].(string)+"9"
		}, verdict.SBOMIncomplete},
		{"a name with its version", func(_ object, list *[]object) {
			last := (*list)[len(*list)-1]
			last["name"] = last["name"].(string) + "-" + last["version"].(string)
		}, ""},
		{"a name with another version", func(_ object, list *[]object) {
			last := (*list)[len(*list)-1]
			last["name"] = last["name"].(string) + "-9" + last["version"].(string)
		}, verdict.Conflict},
		{"a file that is not in it", func(_ object, list *[]object) {
			*list = append(*list, object{"type": "file", "name": "/bin/writer", "hashes": []object{{"alg": "SHA-256", "content": m.Digests.SHA256.Hex()}}})
		}, verdict.Conflict},
	} {
		subject := object{"type": "file", "name": "reader", "hashes": []object{{"alg": "SHA-256", "content": m.Digests.SHA256.Hex()}}}
		var list []object
		for _, p := range m.Draft.Packages[1:] {
			if strings.HasPrefix(p.PURL, "pkg:golang/") { // not the toolchain, which built the program and is no part of it
				list = append(list, object{"type": "library", "name": p.Name, "version": p.Version, "purl": p.PURL})
			}
		}
		row.change(subject, &list)
		text, err := json.Marshal(object{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": object{"component": subject}, "components": list})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := cyclonedx.Parse(text)
		if err != nil {
			t.Fatal(row.name, err)
		}
		held, err := sbom.Check(t.Context(), sbom.Question{Document: doc, Content: &c})
		if err != nil || (row.code == "") != (len(held.Findings) == 0) || row.code != "" && held.Findings[0].Code != row.code {
			t.Errorf("%s: want %q, got %+v, %v", row.name, row.code, held.Findings, err)
		}
	}
}

// TestSeveralDescribed: a document about several things cannot be compared with
// one; the twin describes one.
func TestSeveralDescribed(t *testing.T) {
	raw := compile(t, ".", "./testdata/reader")
	c := sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}
	m, err := sbom.Binary(input(), "reader", c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := spdx.Encode(m.Draft)
	if err != nil {
		t.Fatal(err)
	}
	const list = `"relationships": [`
	both := strings.Replace(string(text), list, list+`{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "`+m.Draft.Packages[1].ID+`"},`, 1)
	for text, code := range map[string]verdict.Code{string(text): "", both: verdict.SBOMSubject} {
		doc, report := spdx.Validate(text)
		if doc.IsZero() {
			t.Fatal(report.Err())
		}
		held, err := sbom.Check(t.Context(), sbom.Question{Document: doc, Content: &c})
		if err != nil || (code == "") != (len(held.Findings) == 0) || code != "" && held.Findings[0].Code != code {
			t.Errorf("want %q, got %+v, %v", code, held.Findings, err)
		}
	}
	if both == string(text) {
		t.Error("the document was not changed")
	}
}
