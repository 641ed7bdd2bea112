package strictyaml

import (
	"cmp"
	"encoding"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/slice"
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
	return slice.Check(n.Content, func(item *yaml.Node) error { return m.node(item, elem) })
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

// tree checks everything that does not depend on the target.
type tree struct {
	lines   [][]byte // the text, for what the parser does not keep
	maxKeys int      // limit for one mapping

	// The last position of startsWith. Nodes are in the order of the text, so
	// no line is searched twice; a line may be the whole document.
	line, column int
	rest         []byte
}

// check refuses n and everything in it with a hidden meaning. n has the given
// depth; the root has depth 1.
func (t *tree) check(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return refuse(n, CodeAlias, "an alias; write the value itself")
	case n.Anchor != "":
		return refuse(n, CodeAlias, "the anchor %s; aliases are not supported", quote(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0, t.startsWith(n, '!'):
		return refuse(n, CodeTag, "an explicit tag; the type follows from the key")
	case n.Kind == yaml.ScalarNode && (strings.ContainsRune(n.Value, 0) || !utf8.ValidString(n.Value)):
		return refuse(n, CodeEncoding, "a NUL or broken character in the value")
	case n.Kind == yaml.ScalarNode && strings.ContainsFunc(n.Value, hidden):
		return refuse(n, CodeEncoding, "an invisible or misleading character in the value %s", quote(n.Value))
	case n.Kind != yaml.ScalarNode && depth > maxDepth:
		return refuse(n, CodeDepth, "nested more than %d levels deep", maxDepth)
	case n.Kind == yaml.MappingNode:
		if err := t.keys(n); err != nil {
			return err
		}
	}
	return slice.Check(n.Content, func(child *yaml.Node) error { return t.check(child, depth+1) })
}

// keys compares the keys of a mapping with each other.
func (t *tree) keys(n *yaml.Node) error {
	if len(n.Content) > 2*t.maxKeys {
		return refuse(n, CodeSize, "more than %d keys", t.maxKeys)
	}
	first := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			continue // refused with the children
		}
		if key.Kind != yaml.ScalarNode {
			return refuse(key, CodeType, "a key that is a list or a mapping")
		}
		if key.ShortTag() == "!!merge" {
			return refuse(key, CodeAlias, "a merge key; write the values themselves")
		}
		if before := first[key.Value]; before != nil {
			return refuse(key, CodeDupKey, "duplicate key %s, first at %d:%d", quote(key.Value), before.Line, before.Column)
		}
		first[key.Value] = key
	}
	return nil
}

// startsWith reports whether the text of n starts with c. The parser drops the
// bare tag "!", but the position of a node is that of its tag.
func (t *tree) startsWith(n *yaml.Node, c byte) bool {
	if n.Line < 1 || n.Line > len(t.lines) {
		return false
	}
	if n.Line != t.line || n.Column < t.column {
		t.line, t.column, t.rest = n.Line, 1, t.lines[n.Line-1]
	}
	for t.column < n.Column && len(t.rest) > 0 {
		_, size := utf8.DecodeRune(t.rest)
		t.rest = t.rest[size:]
		t.column++
	}
	return t.column == n.Column && len(t.rest) > 0 && t.rest[0] == c
}
