package spdx_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
)

// node is a JSON Schema (draft 7) of the few keywords that the SPDX schemas
// have; one that is not known here fails the test.
type node map[string]any

func (n node) accepts(t *testing.T, v any) bool {
	for keyword, want := range n {
		if !n.keyword(t, keyword, want, v) {
			return false
		}
	}
	return true
}

func (n node) keyword(t *testing.T, keyword string, want, v any) bool {
	object, isObject := v.(map[string]any)
	array, isArray := v.([]any)
	switch keyword {
	case "type":
		_, isText := v.(string)
		_, isFlag := v.(bool)
		number, isNumber := v.(float64)
		return map[string]bool{
			"string": isText, "boolean": isFlag, "object": isObject, "array": isArray, "integer": isNumber && number == float64(int64(number)),
		}[want.(string)]
	case "enum":
		return slices.Contains(want.([]any), v)
	case "required":
		for _, name := range want.([]any) {
			if _, there := object[name.(string)]; isObject && !there {
				return false
			}
		}
	case "minItems":
		return !isArray || len(array) >= int(want.(float64))
	case "items":
		for _, e := range array {
			if !node(want.(map[string]any)).accepts(t, e) {
				return false
			}
		}
	case "properties", "additionalProperties":
		properties, _ := n["properties"].(map[string]any)
		for name, e := range object {
			p, known := properties[name].(map[string]any)
			if !known && n["additionalProperties"] == false || known && !node(p).accepts(t, e) {
				return false
			}
		}
	case "$schema", "$id", "title", "description", "examples", "deprecated", "$comment":
	default:
		t.Fatalf("the schema has the keyword %q", keyword)
	}
	return true
}

// mutants changes one place of a document at a time: a property or element is
// taken out, doubled, given another type or another name.
func mutants(v any, emit func()) {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			was := x[k]
			for _, now := range []any{"text", 1.0, true, []any{}, map[string]any{}, []any{1.0}, nil} {
				x[k] = now
				emit()
			}
			delete(x, k)
			emit()
			x["colour"] = was
			emit()
			delete(x, "colour")
			x[k] = was
			mutants(was, emit)
		}
	case []any:
		for i, was := range x {
			for _, now := range []any{"text", 1.0, map[string]any{}} {
				x[i] = now
				emit()
			}
			x[i] = was
			if i < 2 {
				mutants(was, emit)
			}
		}
	}
}

// TestAgreesWithSchema: whatever the schema of 2.3.1 refuses breaks one of our
// rules of form, type or schema, and whatever breaks one of those the schema
// refuses. Rules that no schema can say are beyond it.
func TestAgreesWithSchema(t *testing.T) {
	dir := corpora(t)
	var schema node
	load(t, filepath.Join(dir, "spdx-schema-2.3.1.json"), &schema)
	total, refused := 0, 0
	for _, name := range []string{"ACME-2.3.spdx.json", "example10-hello-source-2.3.spdx.json"} {
		var doc map[string]any
		load(t, filepath.Join(dir, "valid", name), &doc)
		doc["hasExtractedLicensingInfos"] = []any{map[string]any{"licenseId": "LicenseRef-1", "extractedText": "x", "crossRefs": []any{map[string]any{"url": "u", "order": 1.0, "isLive": true}}}}
		doc["snippets"] = []any{map[string]any{"SPDXID": "SPDXRef-S", "name": "s", "snippetFromFile": "SPDXRef-F", "ranges": []any{map[string]any{
			"startPointer": map[string]any{"reference": "SPDXRef-F", "offset": 1.0}, "endPointer": map[string]any{"reference": "SPDXRef-F", "lineNumber": 2.0},
		}}}}
		mutants(doc, func() {
			total++
			if want := schema.accepts(t, doc); !agrees(t, doc, want) {
				t.Fail()
			} else if !want {
				refused++
			}
		})
	}
	t.Logf("%d documents, of which the schema refuses %d: we agree on each", total, refused)
	if total < 1000 {
		t.Error("that is hardly a comparison")
	}
}

func load(t *testing.T, path string, v any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func agrees(t *testing.T, doc map[string]any, want bool) bool {
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	_, report := spdx.Validate(string(raw))
	var broken []string
	for _, f := range report.Faults {
		switch f.Rule {
		case "form", "type", "schema", "property":
			broken = append(broken, fmt.Sprintf("%s: %v", f.Rule, f))
		}
	}
	if (len(broken) == 0) != want {
		t.Logf("schema %v, we %q: %.300s", want, broken, raw)
		return false
	}
	return true
}
