package strictyaml_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
)

const sample = `name: kubernetes
version: "1.10"
push: true
mode: 12
ratio: 0.5
any: {a: [1, x], b: 'no'}
env:
  KEY: value
steps:
- on: server
  run: [build, "{platform}"]   # comment
words: [a, b]
plain: |
  text
`

// Every document with one byte changed or cut off is refused with a place, or
// means the same here as to the lenient decoder.
func TestMangled(t *testing.T) {
	if err := strictyaml.Unmarshal([]byte(sample), new(manifest)); err != nil {
		t.Fatalf("the good twin: %v", err)
	}
	for i := range len(sample) {
		assertOracle(t, []byte(sample[:i]))
		for _, step := range []byte{1, 0x20, 0x80, 0xff} {
			bumped := []byte(sample)
			bumped[i] += step
			assertOracle(t, bumped)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, doc := range []string{
		sample, "", "a: &a [*a]", "<<: {a: 1}", "a: ! 1", "a: !!str 1", "a: 1\na: 2", "---\n---\n", "%YAML 1.2\n---\na", "a: [b", "a:\n\tb: c",
		"push: no", "mode: 0o17", "version: 1.10", "? a\n: b", "any: {? [a] : b}", "# \u2028a: b", "any: \"\\0\"", "ports: {1: a, 01: b}", "words:",
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(assertOracle)
}

// assertOracle compares with the decoder underneath: what is accepted has the
// same value there, and a tree without anything hidden.
func assertOracle(t *testing.T, doc []byte) {
	for _, target := range []reflect.Type{reflect.TypeFor[any](), reflect.TypeFor[manifest](), reflect.TypeFor[map[string]string]()} {
		ours, theirs := reflect.New(target), reflect.New(target)
		if err := strictyaml.Unmarshal(doc, ours.Interface()); err != nil {
			var e *strictyaml.Error
			lines := strings.Count(string(doc), "\n") + 2 // the parser ends the last line itself
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Line > lines || len(err.Error()) > 1500 {
				t.Errorf("%q: %v", doc, err)
			}
			if !ours.Elem().IsZero() {
				t.Errorf("%q: %v left %v", doc, err, ours.Elem())
			}
			continue
		}
		if err := yaml.Unmarshal(doc, theirs.Interface()); err != nil {
			t.Errorf("%q: accepted, the lenient decoder says %v", doc, err)
		}
		if !reflect.DeepEqual(ours.Elem().Interface(), theirs.Elem().Interface()) {
			t.Errorf("%q: %v, the lenient decoder says %v", doc, ours.Elem(), theirs.Elem())
		}
		var tree yaml.Node
		if err := yaml.Unmarshal(doc, &tree); err != nil {
			t.Errorf("%q: accepted, the parser says %v", doc, err)
		}
		assertOpen(t, doc, &tree)
	}
}

// assertOpen looks for hidden meaning in a tree that was accepted.
func assertOpen(t *testing.T, doc []byte, n *yaml.Node) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		t.Errorf("%q: accepted with %+v", doc, n)
	}
	seen := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if child.Kind != yaml.ScalarNode || seen[child.Value] {
				t.Errorf("%q: accepted with key %+v", doc, child)
			}
			seen[child.Value] = true
		}
		assertOpen(t, doc, child)
	}
}
