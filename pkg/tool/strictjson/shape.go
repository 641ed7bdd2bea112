package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// shape is what the scanner needs to know about a Go type: its keys, and the
// range of its numbers.
type shape struct {
	kind        reflect.Kind      // Invalid if unknown
	bits        int               // of a number; 64 for any
	elem        *shape            // of values without a field; never nil
	size        int               // of an array
	fields      map[string]*shape // of a struct, never nil then
	integerKeys bool              // of a map
}

// opaque is the shape of a type about which nothing is known: one that parses
// its own JSON, or a value without a target.
func opaque() *shape {
	sh := &shape{}
	sh.elem = sh
	return sh
}

// fold returns the field that encoding/json would use for key in spite of a
// different spelling, "" if there is none.
func (sh *shape) fold(key string) (twin string) {
	for name := range sh.fields {
		if strings.EqualFold(name, key) && (twin == "" || name < twin) {
			twin = name
		}
	}
	return twin
}

// compiled caches the shapes of types, as encoding/json caches its own: a shape
// depends only on the type, is never changed once complete, and a program has a
// fixed number of types.
var compiled = sync.Map{} // of reflect.Type to *shape

// shapeOf returns the shape of a type, from the cache if possible.
func shapeOf(t reflect.Type) *shape {
	if known, ok := compiled.Load(t); ok {
		return known.(*shape)
	}
	sh := shapes{}.of(t)
	compiled.Store(t, sh)
	return sh
}

// shapes contains the shapes in progress. A shape is added before it is
// complete, which ends the recursion on recursive types.
type shapes map[reflect.Type]*shape

func (all shapes) of(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if sh, known := all[t]; known {
		return sh
	}
	sh := opaque()
	all[t] = sh
	if !readsItself(t) {
		all.fill(sh, t)
	}
	return sh
}

// readsItself reports whether encoding/json leaves values of t to a method of
// t. json.RawMessage and json.Number count too: they keep the original text.
func readsItself(t reflect.Type) bool {
	if t == reflect.TypeFor[json.Number]() {
		return true
	}
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (all shapes) fill(sh *shape, t reflect.Type) {
	sh.kind, sh.elem = t.Kind(), opaque()
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		sh.bits = t.Bits()
	case reflect.Interface:
		sh.bits, sh.elem = 64, sh
	case reflect.Array:
		sh.elem, sh.size = all.of(t.Elem()), t.Len()
	case reflect.Slice:
		sh.elem = all.of(t.Elem())
	case reflect.Map:
		sh.elem = all.of(t.Elem())
		sh.integerKeys = t.Key().Kind() >= reflect.Int && t.Key().Kind() <= reflect.Uintptr && !readsItself(t.Key())
	case reflect.Struct:
		sh.fields = all.fields(t)
	}
}

// candidate is a field that competes for a key.
type candidate struct {
	shape  *shape
	tagged bool
}

// fields finds the keys of struct type t as encoding/json does: fields of
// embedded structs count as those of the outer one; for each key the least
// deeply embedded field wins, among those one that is named by its tag; after a
// tie the key has no field.
func (all shapes) fields(t reflect.Type) map[string]*shape {
	found := map[string]*shape{}
	decided := map[string]bool{}
	visited := map[reflect.Type]bool{}
	for level := []reflect.Type{t}; len(level) > 0; {
		here := map[string][]candidate{}
		var deeper []reflect.Type
		for _, s := range level {
			if visited[s] {
				continue
			}
			for i := range s.NumField() {
				name, c, embedded := all.read(s.Field(i))
				if c.shape != nil {
					here[name] = append(here[name], c)
				} else if embedded != nil {
					deeper = append(deeper, embedded)
				}
			}
		}
		for name, rivals := range here {
			if winner := dominant(rivals); winner != nil && !decided[name] {
				found[name] = winner
			}
			decided[name] = true
		}
		for _, s := range level {
			visited[s] = true
		}
		level = deeper
	}
	return found
}

// read finds the key of a field, or the struct whose fields replace it; a
// hidden field has neither, and no shape.
func (all shapes) read(f reflect.StructField) (name string, c candidate, embedded reflect.Type) {
	target := f.Type
	if target.Name() == "" && target.Kind() == reflect.Pointer {
		target = target.Elem()
	}
	tag := f.Tag.Get("json")
	hidden := !f.IsExported() && (!f.Anonymous || target.Kind() != reflect.Struct)
	if tag == "-" || hidden {
		return "", candidate{}, nil
	}
	name, options, _ := strings.Cut(tag, ",")
	if strings.ContainsFunc(name, notInTag) {
		name = ""
	}
	if f.Anonymous && name == "" && target.Kind() == reflect.Struct {
		return "", candidate{}, target
	}
	c.tagged = name != ""
	if !c.tagged {
		name = f.Name
	}
	if slices.Contains(strings.Split(options, ","), "string") {
		c.shape = opaque() // the number is in a string; encoding/json checks it
	} else {
		c.shape = all.of(f.Type)
	}
	return name, c, nil
}

// dominant returns the winner among fields of equal depth, nil if there is
// none.
func dominant(rivals []candidate) (winner *shape) {
	if len(rivals) == 1 {
		return rivals[0].shape
	}
	for _, c := range rivals {
		switch {
		case !c.tagged:
		case winner != nil:
			return nil
		default:
			winner = c.shape
		}
	}
	return winner
}

// notInTag reports characters that make encoding/json ignore a name in a tag.
func notInTag(r rune) bool {
	return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}
