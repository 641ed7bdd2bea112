package strictyaml

import (
	"cmp"
	"encoding"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// matcher walks a tree together with its target type, so that errors have a
// position.
type matcher map[reflect.Type]*keySet

// node refuses n unless it has the form of t.
func (m matcher) node(n *yaml.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[yaml.Node]():
		return nil
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		if t.Kind() == reflect.Interface {
			return nil
		}
		return refuse(n, CodeType, "no value, want %s; leave the key out or set a value", describe(t))
	case reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()):
		if err := reflect.New(t).Interface().(yaml.Unmarshaler).UnmarshalYAML(n); err != nil {
			return causedBy(n, err)
		}
		return nil
	case n.Kind == yaml.ScalarNode:
		return matchScalar(n, t)
	case n.Kind == yaml.SequenceNode:
		return m.sequence(n, t)
	case n.Kind == yaml.MappingNode:
		return m.mapping(n, t)
	}
	return refuse(n, CodeAlias, "an alias; write the value itself")
}

func (m matcher) sequence(n *yaml.Node, t reflect.Type) error {
	elem := t // of any
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		elem = t.Elem()
	case reflect.Interface:
	default:
		return refuse(n, CodeType, "a list, want %s", describe(t))
	}
	if t.Kind() == reflect.Array && t.Len() != len(n.Content) {
		return refuse(n, CodeType, "%d items, want %d", len(n.Content), t.Len())
	}
	for _, item := range n.Content {
		if err := m.node(item, elem); err != nil {
			return err
		}
	}
	return nil
}

func (m matcher) mapping(n *yaml.Node, t reflect.Type) error {
	var keys *keySet
	switch {
	case readsText(t):
	case t.Kind() == reflect.Struct:
		keys = m.keysOf(t)
	case t.Kind() == reflect.Map:
		keys = &keySet{key: t.Key(), rest: t.Elem()}
	case t.Kind() == reflect.Interface:
		keys = &keySet{key: reflect.TypeFor[string](), rest: t}
	}
	if keys == nil {
		return refuse(n, CodeType, "a mapping, want %s", describe(t))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if err := m.member(n.Content[i], n.Content[i+1], keys); err != nil {
			return err
		}
	}
	return nil
}

func (m matcher) member(key, value *yaml.Node, keys *keySet) error {
	if t, known := keys.named[key.Value]; known {
		return m.node(value, t)
	}
	if keys.rest == nil {
		known := strings.Join(slices.Sorted(maps.Keys(keys.named)), ", ")
		return refuse(key, CodeUnknownKey, "unknown key %s; known here: %s", quote(key.Value), known)
	}
	if err := m.node(key, keys.key); err != nil {
		return err
	}
	return m.node(value, keys.rest)
}

// keySet is what a mapping may contain.
type keySet struct {
	named map[string]reflect.Type
	key   reflect.Type // shape of all other keys
	rest  reflect.Type // of their values, nil if other keys are not allowed
}

// keysOf reads the tags of a struct as the decoder does.
func (m matcher) keysOf(t reflect.Type) *keySet {
	if keys, known := m[t]; known {
		return keys
	}
	keys := &keySet{named: map[string]reflect.Type{}, key: reflect.TypeFor[string]()}
	m[t] = keys
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("yaml")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if slices.Contains(strings.Split(options, ","), "inline") {
			m.inline(keys, f.Type)
			continue
		}
		name = cmp.Or(name, strings.ToLower(f.Name))
		keys.named[name] = f.Type
	}
	return keys
}

// inline adds the keys of an inlined map or struct.
func (m matcher) inline(keys *keySet, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Map:
		keys.rest = t.Elem()
	case reflect.Struct:
		maps.Copy(keys.named, m.keysOf(t).named)
	}
}

// readsText reports whether scalars are left to a method of t.
func readsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// describe names a type in the terms of YAML.
func describe(t reflect.Type) string {
	switch {
	case readsText(t), t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return "a list"
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return "a mapping"
	case t.Kind() == reflect.Bool:
		return "true or false"
	}
	return "a number"
}
