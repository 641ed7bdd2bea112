// Package checkschema compares a JSON schema with the Go types that read the
// same document, and judges documents by it.
//
//	s := checkschema.Load(t, raw)
//	s.Matches(reflect.TypeFor[file]())  // the same keys, in every object
//	s.Defaults(map[string]any{"modules.proxy": defaultModuleProxy})
//	err := s.Accepts(document)
//
// It knows the keywords that our schemas use; any other fails the test, so that
// a schema never says more than is checked.
//
// Other projects should not import this package: it changes without notice.
package checkschema

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// Schema is a JSON schema.
type Schema struct {
	t    testing.TB
	root map[string]any
}

// Load parses a schema.
func Load(t testing.TB, raw []byte) Schema {
	t.Helper()
	s := Schema{t: t}
	if err := json.Unmarshal(raw, &s.root); err != nil {
		t.Fatal(err)
	}
	if s.root["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("$schema is %v", s.root["$schema"])
	}
	return s
}

// resolve follows references, also to the keys of another object.
func (s Schema) resolve(node map[string]any) map[string]any {
	ref, is := node["$ref"].(string)
	if !is {
		return node
	}
	var target any = s.root
	for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		target = target.(map[string]any)[step]
	}
	found, is := target.(map[string]any)
	if !is {
		s.t.Fatalf("no definition %s", ref)
	}
	return found
}

// Keys lists the keys of the object at a path such as places.files or
// revoked[].identity; "" is the top.
func (s Schema) Keys(path string) []string {
	s.t.Helper()
	var keys []string
	s.walk(func(at, key string, _ map[string]any, _ bool) {
		if at == path {
			keys = append(keys, key)
		}
	})
	return keys
}

// Defaults requires that the schema states exactly these defaults, by the paths
// of keys.
func (s Schema) Defaults(want map[string]any) {
	s.t.Helper()
	stated := map[string]any{}
	s.walk(func(at, key string, node map[string]any, required bool) {
		if value, is := node["default"]; is {
			stated[join(at, key)] = value
			if required {
				s.t.Errorf("%s is required, and has a default", join(at, key))
			}
		}
	})
	raw, err := json.Marshal(want)
	if err != nil {
		s.t.Fatal(err)
	}
	var plain map[string]any
	if err := json.Unmarshal(raw, &plain); err != nil {
		s.t.Fatal(err)
	}
	for path := range maps.Keys(stated) {
		if !reflect.DeepEqual(stated[path], plain[path]) {
			s.t.Errorf("%s: the schema states the default %v, the reader has %v", path, stated[path], plain[path])
		}
	}
	for path := range plain {
		if _, is := stated[path]; !is {
			s.t.Errorf("%s: the schema states no default, the reader has %v", path, plain[path])
		}
	}
}

// walk visits every key once; objects behind a reference only at its first
// occurrence.
func (s Schema) walk(visit func(at, key string, node map[string]any, required bool)) {
	seen := map[string]bool{}
	top, _ := s.root["properties"].(map[string]any)
	for key := range top {
		seen["#/properties/"+key] = true
	}
	var in func(at string, node map[string]any)
	in = func(at string, node map[string]any) {
		if ref, is := node["$ref"].(string); is {
			if seen[ref] {
				return
			}
			seen[ref] = true
			in(at, s.resolve(node))
			return
		}
		properties, _ := node["properties"].(map[string]any)
		required, _ := node["required"].([]any)
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			child, is := properties[key].(map[string]any)
			if !is {
				continue // true or false
			}
			visit(at, key, child, slices.Contains(required, any(key)))
			in(join(at, key), child)
		}
		if items, is := node["items"].(map[string]any); is {
			in(at+"[]", items)
		}
		if rest, is := node["additionalProperties"].(map[string]any); is {
			in(join(at, "*"), rest)
		}
		if forms, is := node["anyOf"].([]any); is {
			for _, form := range forms {
				in(at, form.(map[string]any))
			}
		}
	}
	in("", s.root)
}

func join(at, key string) string { return strings.TrimPrefix(at+"."+key, ".") }

// Matches requires that every object of the schema has exactly the keys of the
// struct that reads it, and no others.
func (s Schema) Matches(kind reflect.Type) { s.t.Helper(); s.match("", s.root, kind) }

func (s Schema) match(at string, node map[string]any, kind reflect.Type) {
	s.t.Helper()
	node = s.resolve(node)
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if isText(kind) {
		return
	}
	switch kind.Kind() {
	case reflect.Struct:
		keys := keysOf(kind)
		properties, _ := node["properties"].(map[string]any)
		if known, read := slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(keys)); !slices.Equal(known, read) {
			s.t.Errorf("%q: the schema has the keys %q, the reader %q", at, known, read)
		}
		if node["additionalProperties"] != false {
			s.t.Errorf("%q: the schema allows more keys", at)
		}
		for key, of := range keys {
			if child, is := properties[key].(map[string]any); is {
				s.match(join(at, key), child, of)
			}
		}
	case reflect.Slice:
		items, is := node["items"].(map[string]any)
		if !is {
			s.t.Errorf("%q: the reader has a list, the schema none", at)
			return
		}
		s.match(at+"[]", items, kind.Elem())
	case reflect.Map:
		if rest, is := node["additionalProperties"].(map[string]any); is {
			s.match(join(at, "*"), rest, kind.Elem())
		}
		properties, _ := node["properties"].(map[string]any)
		for key, child := range properties {
			s.match(join(at, key), child.(map[string]any), kind.Elem())
		}
	case reflect.Bool, reflect.Int:
		want := map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int: "integer"}[kind.Kind()]
		if _, fixed := node["const"]; node["type"] != want && !fixed {
			s.t.Errorf("%q: the reader has %s, the schema %v", at, want, node["type"])
		}
	}
}

// isText reports whether a type reads itself from text.
func isText(kind reflect.Type) bool {
	value := reflect.New(kind).Interface()
	_, text := value.(encoding.TextUnmarshaler)
	_, own := value.(yaml.Unmarshaler)
	return text || own || kind == reflect.TypeFor[time.Duration]() || kind == reflect.TypeFor[yaml.Node]()
}

// keysOf are the keys of a struct, with those of the structs that it embeds.
func keysOf(kind reflect.Type) map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	for i := range kind.NumField() {
		f := kind.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			maps.Copy(keys, keysOf(f.Type))
		case name != "" && name != "-":
			keys[name] = f.Type
		}
	}
	return keys
}
