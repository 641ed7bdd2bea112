package image_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/produce/image"
)

// schemas judges documents by the JSON schemas of the image specification,
// which lie beside the checkout. A keyword that is not known here fails the
// test, so that nothing of a schema is passed over.
type schemas struct {
	t     *testing.T
	files map[string]any
}

func specification(t *testing.T) schemas {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "..", "shared", "corpora", "oci")
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(names) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI needs the schemas of the image specification: %v", err)
		}
		t.Skip("the schemas of the image specification are not here")
	}
	s := schemas{t, map[string]any{}}
	for _, n := range names {
		raw, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		var schema any
		if err := json.Unmarshal(raw, &schema); err != nil {
			t.Fatal(err)
		}
		s.files[filepath.Base(n)] = schema
	}
	return s
}

// faults says what a schema has against a document.
func (s schemas) faults(file string, raw []byte) []string {
	s.t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	var document any
	if err := decoder.Decode(&document); err != nil {
		return []string{err.Error()}
	}
	return s.judge(file, s.files[file], "", document)
}

func (s schemas) judge(file string, schema any, at string, value any) (faults []string) {
	rules, ok := schema.(map[string]any)
	if !ok {
		s.t.Fatalf("%s: no schema %v", file, schema)
	}
	if ref, ok := rules["$ref"].(string); ok { // what stands beside it does not count
		file, schema := s.follow(file, ref)
		return s.judge(file, schema, at, value)
	}
	for _, keyword := range slices.Sorted(maps.Keys(rules)) {
		switch rule := rules[keyword]; keyword {
		case "$schema", "id", "description", "definitions", "media", "format": // say nothing that is held here
		case "properties":
			for name, below := range rule.(map[string]any) {
				if member, there := member(value, name); there {
					faults = append(faults, s.judge(file, below, at+"."+name, member)...)
				}
			}
		case "patternProperties":
			for pattern, below := range rule.(map[string]any) {
				for name, v := range object(value) {
					if regexp.MustCompile(pattern).MatchString(name) {
						faults = append(faults, s.judge(file, below, at+"."+name, v)...)
					}
				}
			}
		case "items":
			list, _ := value.([]any)
			for i, v := range list {
				faults = append(faults, s.judge(file, rule, fmt.Sprintf("%s[%d]", at, i), v)...)
			}
		case "oneOf":
			fit := 0
			for _, r := range rule.([]any) {
				if len(s.judge(file, r, at, value)) == 0 {
					fit++
				}
			}
			if fit != 1 {
				faults = append(faults, fmt.Sprintf("%s: fits %d of %s", at, fit, keyword))
			}
		default:
			if !s.holds(keyword, rule, value) {
				faults = append(faults, fmt.Sprintf("%s: %v is not as %s %v asks", at, value, keyword, rule))
			}
		}
	}
	return faults
}

func (s schemas) holds(keyword string, rule, value any) bool {
	text, isText := value.(string)
	number, isNumber := value.(float64)
	list, isList := value.([]any)
	switch keyword {
	case "type":
		return slices.ContainsFunc(several(rule), func(k any) bool { return isOf(value, k.(string)) })
	case "enum":
		return slices.Contains(rule.([]any), value)
	case "pattern":
		return !isText || regexp.MustCompile(rule.(string)).MatchString(text)
	case "minimum":
		return !isNumber || number >= rule.(float64)
	case "maximum":
		return !isNumber || number <= rule.(float64)
	case "minItems":
		return !isList || float64(len(list)) >= rule.(float64)
	case "required":
		return !slices.ContainsFunc(rule.([]any), func(name any) bool {
			_, there := member(value, name.(string))
			return !there
		})
	}
	s.t.Fatalf("keyword %s is not known here", keyword)
	return false
}

// follow finds what "defs.json#/definitions/x" means in a file.
func (s schemas) follow(file, ref string) (string, any) {
	name, path, _ := strings.Cut(ref, "#")
	if name != "" {
		file = name
	}
	schema := s.files[file]
	for elem := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if elem != "" {
			schema, _ = member(schema, elem)
		}
	}
	return file, schema
}

func several(rule any) []any {
	if list, ok := rule.([]any); ok {
		return list
	}
	return []any{rule}
}

func isOf(value any, kind string) bool {
	switch v := value.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case []any:
		return kind == "array"
	}
	return kind == "object"
}

func object(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

func member(value any, name string) (any, bool) {
	v, there := object(value)[name]
	return v, there
}

// TestDocumentsFitTheSpecification: indexes, manifests and configurations that
// we make, on nothing, on a base and of what Docker saved, are as the schemas
// of the image specification ask.
func TestDocumentsFitTheSpecification(t *testing.T) {
	s := specification(t)
	p := v1.Platform{OS: "linux", Architecture: "amd64"}
	saved, err := imported(t, savedPlainly(t), p.String())
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string]*image.Built{"on nothing": build(t, spec()), "on a base": build(t, on(t, spec(), p)), "of what was saved": saved} {
		faults := s.faults("image-index-schema.json", b.Raw)
		for _, c := range b.Children {
			faults = append(append(faults, s.faults("image-manifest-schema.json", c.Raw)...), s.faults("config-schema.json", c.ConfigRaw)...)
		}
		if len(faults) > 0 {
			t.Errorf("%s: %q", what, faults)
		}
	}
	// The judge does judge.
	c := build(t, spec()).Children[0]
	for file, row := range map[string][3]string{
		"image-manifest-schema.json": {string(c.Raw), `"digest":"sha256:`, `"digest":"`},
		"config-schema.json":         {string(c.ConfigRaw), `"os":"linux"`, `"os":7`},
		"image-index-schema.json":    {string(build(t, spec()).Raw), `"schemaVersion":2`, `"schemaVersion":1`},
	} {
		changed := strings.Replace(row[0], row[1], row[2], 1)
		if len(s.faults(file, []byte(changed))) == 0 || changed == row[0] {
			t.Errorf("%s takes %s", file, changed)
		}
	}
}
