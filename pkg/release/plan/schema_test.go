package plan_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// schema judges a value by the keywords that our schemas use. A keyword that
// is not known here fails the test, so that no schema says more than is held.
type schema struct {
	t    *testing.T
	root map[string]any
}

func loadSchema(t *testing.T, raw []byte) schema {
	t.Helper()
	s := schema{t: t}
	if err := json.Unmarshal(raw, &s.root); err != nil {
		t.Fatal(err)
	}
	if s.root["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("$schema is %v", s.root["$schema"])
	}
	return s
}

// accepts judges a document; like our reader it takes YAML.
func (s schema) accepts(text string) error {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return err
	}
	return s.judge(s.root, "", plain)
}

func (s schema) judge(rule map[string]any, at string, value any) error {
	if ref, ok := rule["$ref"].(string); ok {
		defs := s.root["$defs"].(map[string]any)
		target, ok := defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		if !ok {
			s.t.Fatalf("no definition %s", ref)
		}
		if err := s.judge(target, at, value); err != nil {
			return err
		}
	}
	for _, keyword := range slices.Sorted(maps.Keys(rule)) {
		var why string
		switch want := rule[keyword]; keyword {
		case "$schema", "$id", "$defs", "$ref", "title", "description":
		case "anyOf":
			why = s.any(want.([]any), at, value)
		case "properties", "additionalProperties", "items", "required", "minProperties", "minItems", "uniqueItems":
			if err := s.inside(rule, keyword, at, value); err != nil {
				return err
			}
		default:
			why = s.scalar(keyword, want, value)
		}
		if why != "" {
			return fmt.Errorf("%s: %s", at, why)
		}
	}
	return nil
}

func (s schema) any(rules []any, at string, value any) string {
	var why []string
	for _, r := range rules {
		err := s.judge(r.(map[string]any), at, value)
		if err == nil {
			return ""
		}
		why = append(why, err.Error())
	}
	return strings.Join(why, "; ")
}

func (s schema) scalar(keyword string, want, value any) string {
	text, isText := value.(string)
	number, isNumber := value.(float64)
	holds := true
	switch keyword {
	case "type":
		list, many := want.([]any)
		if !many {
			list = []any{want}
		}
		holds = slices.ContainsFunc(list, func(k any) bool { return kindOf(value, k.(string)) })
	case "const":
		holds = value == want
	case "enum":
		holds = slices.Contains(want.([]any), value)
	case "pattern":
		holds = !isText || regexp.MustCompile(want.(string)).MatchString(text)
	case "minLength":
		holds = !isText || float64(len(text)) >= want.(float64)
	case "minimum":
		holds = !isNumber || number >= want.(float64)
	case "maximum":
		holds = !isNumber || number <= want.(float64)
	default:
		s.t.Fatalf("keyword %s is not known here", keyword)
	}
	if holds {
		return ""
	}
	return fmt.Sprintf("%v is not as %s %v asks", value, keyword, want)
}

func kindOf(value any, kind string) bool {
	switch v := value.(type) {
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

func (s schema) inside(rule map[string]any, keyword, at string, value any) error {
	object, isObject := value.(map[string]any)
	list, isList := value.([]any)
	properties, _ := rule["properties"].(map[string]any)
	switch want := rule[keyword]; {
	case keyword == "required" && isObject:
		for _, name := range want.([]any) {
			if _, there := object[name.(string)]; !there {
				return fmt.Errorf("%s: no %s", at, name)
			}
		}
	case keyword == "minProperties" && isObject && float64(len(object)) < want.(float64),
		keyword == "minItems" && isList && float64(len(list)) < want.(float64):
		return fmt.Errorf("%s: empty", at)
	case keyword == "uniqueItems" && isList:
		seen := map[string]bool{}
		for _, v := range list {
			key := fmt.Sprint(v)
			if seen[key] {
				return fmt.Errorf("%s: %s twice", at, key)
			}
			seen[key] = true
		}
	case keyword == "items":
		for i, v := range list {
			if err := s.judge(want.(map[string]any), fmt.Sprintf("%s[%d]", at, i), v); err != nil {
				return err
			}
		}
	case keyword == "properties" || keyword == "additionalProperties":
		return s.members(rule, properties, at, object)
	}
	return nil
}

func (s schema) members(rule, properties map[string]any, at string, object map[string]any) error {
	for name, v := range object {
		next, known := properties[name].(map[string]any)
		if !known {
			rest := rule["additionalProperties"]
			if rest == nil || rest == true {
				continue
			}
			if next, known = rest.(map[string]any); !known {
				return fmt.Errorf("%s: unknown key %s", at, name)
			}
		}
		if err := s.judge(next, at+"."+name, v); err != nil {
			return err
		}
	}
	return nil
}

// TestSchemaAcceptsWhatWeRead: whatever the parser accepts, the schema accepts;
// and what the schema refuses, the parser refuses.
func TestSchemaAcceptsWhatWeRead(t *testing.T) {
	s := loadSchema(t, plan.ConfigSchema())
	kubernetes, _ := golden(t, "kubernetes")
	goreleaser, _ := golden(t, "goreleaser")
	for name, text := range map[string]string{"small": small, "full": full, "kubernetes": kubernetes, "goreleaser": goreleaser, "example": exampleText(t)} {
		if err := s.accepts(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	rows := map[string][2]string{
		"an unknown key":       {"kind: Release", "kind: Release\nartifacts: {}"},
		"another kind":         {"kind: Release", "kind: Lock"},
		"a name in upper case": {"name: tool\n", "name: Tool\n"},
		"an empty list":        {"bins: [serve, ctl]", "bins: []"},
		"no steps' outputs":    {"outputs: [{class: file, name: tool-checksums.txt}]", "outputs: []"},
		"a word as a number":   {"cpus: 2", "cpus: many"},
		"too many processors":  {"cpus: 2", "cpus: 5000"},
		"memory in bytes":      {"memory: 4Gi", "memory: 4G"},
		"a weak sidecar":       {"sidecars: [sha256]", "sidecars: [md5]"},
		"a moving tag":         {"{tags: [\"{version}\"]}", "{tags: [latest]}"},
		"a platform twice":     {"server: [linux/amd64, linux/arm64]", "server: [linux/amd64, linux/amd64]"},
		"an unknown algorithm": {"algorithm: sha512", "algorithm: md5"},
		"an unknown evidence":  {"file: [provenance, bundle]", "file: [provenance, signature]"},
	}
	for name, row := range rows {
		text := change(t, full, row[0], row[1])
		if s.accepts(text) == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
		if _, err := plan.ParseConfig([]byte(text)); err == nil {
			t.Errorf("%s: the parser accepts it", name)
		}
	}
}

// TestSchemaKnowsTheKeys: every key that the parser knows is in the schema and
// the other way round; the parser itself lists them in its refusals.
func TestSchemaKnowsTheKeys(t *testing.T) {
	s := loadSchema(t, plan.ConfigSchema())
	step := s.root["$defs"].(map[string]any)["step"].(map[string]any)["properties"].(map[string]any)
	output := s.root["$defs"].(map[string]any)["output"].(map[string]any)["properties"].(map[string]any)
	for name, row := range map[string]struct {
		old, with string
		keys      map[string]any
	}{
		"the top":    {"kind: Release", "kind: Release\nnobody: x", s.root["properties"].(map[string]any)},
		"a step":     {"- name: pack", "- name: pack\n  nobody: x", step},
		"an output":  {"{class: image,", "{nobody: x, class: image,", output},
		"an archive": {"{format: tar.gz,", "{nobody: x, format: tar.gz,", step["archive"].(map[string]any)["properties"].(map[string]any)},
		"an image":   {"{base: static,", "{nobody: x, base: static,", step["image"].(map[string]any)["properties"].(map[string]any)},
		"a go step":  {"{package: ./cmd/helper,", "{nobody: x, package: ./cmd/helper,", step["go"].(map[string]any)["properties"].(map[string]any)},
		"sums":       {"{algorithm: sha512,", "{nobody: x, algorithm: sha512,", step["checksums"].(map[string]any)["properties"].(map[string]any)},
	} {
		_, err := plan.ParseConfig([]byte(change(t, full, row.old, row.with)))
		refused(t, err, "known here: ")
		_, list, _ := strings.Cut(err.Error(), "known here: ")
		list, _, _ = strings.Cut(list, "\n")
		known := strings.Split(list, ", ")
		slices.Sort(known)
		if want := slices.Sorted(maps.Keys(row.keys)); !slices.Equal(known, want) {
			t.Errorf("%s: the parser knows %q, the schema %q", name, known, want)
		}
	}
}

func TestLockSchema(t *testing.T) {
	s := loadSchema(t, plan.LockSchema())
	text := string(whole(t).Encode())
	if err := s.accepts(text); err != nil {
		t.Error(err)
	}
	for name, row := range map[string][2]string{
		"a digest that is short": {sum("go").String(), "sha256:abc"},
		"an unknown key":         {"program:", "path: x, program:"},
		"a requirement of two":   {"example.test/dep v1.0.0 h1:aaaa=", "example.test/dep h1:aaaa="},
		"another kind":           {"kind: Lock", "kind: Release"},
	} {
		if s.accepts(change(t, text, row[0], row[1])) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
