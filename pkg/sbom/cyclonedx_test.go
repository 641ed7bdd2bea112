package sbom_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/cyclonedx"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
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

// TestSeveralDescribed: of a document about several things, the one with the
// digest of the bytes is compared, without what belongs to the others. Bytes of
// none are refused, and so is a module that belongs to the thing itself.
func TestSeveralDescribed(t *testing.T) {
	raw := compile(t, ".", "./testdata/reader")
	program := sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}
	m, err := sbom.Binary(input(), "reader", program)
	if err != nil {
		t.Fatal(err)
	}
	const list = `"relationships": [`
	for _, row := range []struct {
		name, tool, owner, described string
		content                      sbom.Content
		code                         verdict.Code
	}{
		{"the program", "other-1", "SPDXRef-Text", "SPDXRef-Text", program, ""},
		{"the program, described by Waybill", m.Draft.Tool, "SPDXRef-Text", "SPDXRef-Text", program, ""},
		{"the text", "other-1", m.Draft.Packages[0].ID, "SPDXRef-Text", content([]byte("text")), ""},
		{"bytes of neither", "other-1", "SPDXRef-Text", "SPDXRef-Text", content([]byte("other text")), verdict.SBOMSubject},
		{"bytes of neither, described by Waybill", m.Draft.Tool, "SPDXRef-Text", "SPDXRef-Text", content([]byte("other text")), verdict.SBOMSubject},
		{"the program has a module more", "other-1", m.Draft.Packages[0].ID, "SPDXRef-Text", program, verdict.Conflict},
		{"the module is described by itself", "other-1", "SPDXRef-Text", "SPDXRef-Module", program, ""},
	} {
		d := m.Draft
		d.Tool = row.tool
		d.Packages = append(slices.Clip(d.Packages), spdx.Package{ID: "SPDXRef-Text", Name: "text", Version: "v1", Digests: digest.SetOf([]byte("text"))},
			spdx.Package{ID: "SPDXRef-Module", Name: "example.org/wick", Version: "v1.0.0", PURL: "pkg:golang/example.org/wick@v1.0.0"})
		d.Relationships = append(slices.Clip(d.Relationships), spdx.Relationship{From: "SPDXRef-Module", Type: "DEPENDENCY_OF", To: row.owner})
		if row.tool == "other-1" { // other tools do not list the Go toolchain
			tool := slices.IndexFunc(d.Packages, func(p spdx.Package) bool { return p.Name == "go" })
			id := d.Packages[tool].ID
			d.Packages = slices.Delete(slices.Clone(d.Packages), tool, tool+1)
			d.Relationships = slices.DeleteFunc(slices.Clone(d.Relationships), func(r spdx.Relationship) bool { return r.From == id || r.To == id })
		}
		one, err := spdx.Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(one), list, list+`{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "`+row.described+`"},`, 1)
		doc, report := spdx.Validate(text)
		if doc.IsZero() || text == string(one) {
			t.Fatal(report.Err())
		}
		v, err := sbom.Judge(t.Context(), sbom.Question{Document: doc, Content: &row.content}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if (row.code == "") != (len(v.Findings) == 0) || row.code != "" && v.Findings[0].Code != row.code {
			t.Errorf("%s: want %q, got %+v", row.name, row.code, v.Findings)
		}
		if left := strings.Join(v.Scope.Left, "; "); row.code != verdict.SBOMSubject && !strings.Contains(left, "1 thing that the SBOM also describes") {
			t.Errorf("%s: the verdict leaves out: %s", row.name, left)
		}
	}
}
