package attestations_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// schema is a JSON Schema of the few keywords that we use. A keyword that is
// not known here fails the test, so that no schema says more than is checked.
type schema struct{ root map[string]any }

func loadSchema(t testing.TB, dir string) schema {
	t.Helper()
	var s schema
	if err := json.Unmarshal([]byte(read(t, dir+"/schema.json")), &s.root); err != nil {
		t.Fatal(err)
	}
	if s.root["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("%s: $schema is %v", dir, s.root["$schema"])
	}
	return s
}

func (s schema) resolve(node map[string]any) map[string]any {
	ref, ok := node["$ref"].(string)
	if !ok {
		return node
	}
	defs, _ := s.root["$defs"].(map[string]any)
	target, ok := defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	if !ok {
		panic("no definition " + ref)
	}
	return target
}

// faults lists what is wrong with a value.
func (s schema) faults(node map[string]any, at string, value any) []string {
	node = s.resolve(node)
	var list []string
	for _, keyword := range slices.Sorted(maps.Keys(node)) {
		switch keyword {
		case "$schema", "$id", "$defs", "title", "description":
		case "properties", "additionalProperties", "items":
			list = append(list, s.inside(node, keyword, at, value)...)
		default:
			if fault := check(keyword, node[keyword], value); fault != "" {
				list = append(list, at+": "+fault)
			}
		}
	}
	return list
}

// inside judges the parts of an object or an array.
func (s schema) inside(node map[string]any, keyword, at string, value any) []string {
	var list []string
	object, _ := value.(map[string]any)
	properties, _ := node["properties"].(map[string]any)
	switch keyword {
	case "properties":
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if p, ok := properties[name].(map[string]any); ok {
				list = append(list, s.faults(p, at+"."+name, object[name])...)
			}
		}
	case "additionalProperties":
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if _, known := properties[name]; known || node[keyword] == true {
				continue
			}
			if p, ok := node[keyword].(map[string]any); ok {
				list = append(list, s.faults(p, at+"."+name, object[name])...)
				continue
			}
			list = append(list, at+": unknown property "+name)
		}
	case "items":
		array, _ := value.([]any)
		for i, item := range array {
			list = append(list, s.faults(node["items"].(map[string]any), fmt.Sprintf("%s[%d]", at, i), item)...)
		}
	}
	return list
}

// check judges one value by one keyword.
func check(keyword string, want, value any) string {
	text, isText := value.(string)
	number, isNumber := value.(float64)
	array, isArray := value.([]any)
	object, isObject := value.(map[string]any)
	ok := true
	switch keyword {
	case "type":
		_, isBool := value.(bool)
		is := map[string]bool{"string": isText, "integer": isNumber && number == float64(int64(number)), "array": isArray, "object": isObject, "boolean": isBool}
		ok = is[want.(string)]
	case "enum":
		ok = slices.Contains(want.([]any), value)
	case "pattern":
		ok = !isText || regexp.MustCompile(want.(string)).MatchString(text)
	case "format":
		_, err := time.Parse(time.RFC3339, text)
		ok = want == "date-time" && err == nil
	case "minLength":
		ok = !isText || len(text) >= int(want.(float64))
	case "maxLength":
		ok = !isText || len(text) <= int(want.(float64))
	case "minimum":
		ok = !isNumber || number >= want.(float64)
	case "minItems":
		ok = !isArray || len(array) >= int(want.(float64))
	case "maxItems":
		ok = !isArray || len(array) <= int(want.(float64))
	case "required":
		for _, name := range texts(want) {
			if _, there := object[name]; isObject && !there {
				return "no property " + name
			}
		}
	default:
		return "the schema has keyword " + keyword + ", which this test does not check"
	}
	if !ok {
		return fmt.Sprintf("%v does not fit %s %v", value, keyword, want)
	}
	return ""
}

func texts(v any) []string {
	var list []string
	array, _ := v.([]any)
	for _, item := range array {
		list = append(list, item.(string))
	}
	return list
}

// clone copies an object two levels deep, enough to strike properties off.
func clone(node map[string]any) map[string]any {
	node = maps.Clone(node)
	if properties, ok := node["properties"].(map[string]any); ok {
		node["properties"] = maps.Clone(properties)
	}
	return node
}
