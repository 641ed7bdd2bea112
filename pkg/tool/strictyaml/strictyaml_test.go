package strictyaml_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// manifest has one field of every kind that is treated differently.
type manifest struct {
	Name    string            `yaml:"name"`
	Version string            `yaml:"version"`
	Push    bool              `yaml:"push"`
	Mode    int               `yaml:"mode"`
	Small   uint8             `yaml:"small"`
	Ratio   float64           `yaml:"ratio"`
	Any     any               `yaml:"any"`
	Env     map[string]string `yaml:"env"`
	Ports   map[int]string    `yaml:"ports"`
	Steps   []*step           `yaml:"steps"`
	Pair    [2]string         `yaml:"pair"`
	Time    time.Time         `yaml:"time"`
	Wait    time.Duration     `yaml:"wait"`
	Sum     digest.Digest     `yaml:"sum"`
	Words   words             `yaml:"words"`
	Node    yaml.Node         `yaml:"node"`
	Skipped string            `yaml:"-"`
	Plain   string
	extra   `yaml:",inline"`
}

type step struct {
	On  string   `yaml:"on"`
	Run []string `yaml:"run"`
}

type extra struct {
	Extra string `yaml:"extra"`
}

// words is one word or a list of them.
type words []string

func (w *words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return strictyaml.Decode(n, (*[]string)(w))
	}
	var word string
	if err := strictyaml.Decode(n, &word); err != nil {
		return err
	}
	if word == "" {
		return errors.New("a word is\nneeded")
	}
	*w = words{word}
	return nil
}

// row is a document and what it is refused with; no code: a twin that passes.
type row struct {
	name, doc    string
	code         string
	line, column int
}

func run(t *testing.T, rows []row) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var m manifest
			err := strictyaml.Unmarshal([]byte(row.doc), &m)
			if row.code == "" {
				if err != nil {
					t.Fatalf("the good twin is refused: %v", err)
				}
				return
			}
			var e *strictyaml.Error
			if !errors.As(err, &e) || e.Code != row.code || e.Line != row.line || e.Column != row.column {
				t.Fatalf("got %v, want %s at %d:%d", err, row.code, row.line, row.column)
			}
			if !reflect.DeepEqual(m, manifest{}) {
				t.Errorf("a refused document left %+v", m)
			}
		})
	}
}

func TestUnmarshalFillsTheTarget(t *testing.T) {
	const doc = `---
# A comment.
name: kubernetes
version: "1.10"
push: true
mode: -12
small: 255
ratio: 1.5e3
any: {list: [1, 2.5, true, null, text, "no"], empty: }
env: {KEY: value, "on": "yes"}
ports: {80: http}
steps:
- {on: server, run: [build, "{platform}"]}
- run: []
pair: [a, b]
time: 2026-01-02T03:04:05Z
wait: 1h30m
sum: sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
words: one
node: [free, 017]
plain: |
  some
  	text
extra: inlined
`
	var got, want manifest
	if err := strictyaml.Unmarshal([]byte(doc), &got); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(doc), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) || got.Version != "1.10" || got.Wait != 90*time.Minute || got.Steps[0].On != "server" {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestUnmarshalReplaces(t *testing.T) {
	m := map[string]int{"old": 1}
	if err := strictyaml.Unmarshal([]byte("new: 2"), &m); err != nil || !reflect.DeepEqual(m, map[string]int{"new": 2}) {
		t.Errorf("got %v, %v", m, err)
	}
	if err := strictyaml.Unmarshal([]byte("bad: x"), &m); err == nil || !reflect.DeepEqual(m, map[string]int{"new": 2}) {
		t.Errorf("a refused document left %v, %v", m, err)
	}
}

func TestUnmarshalPanicsOnMisuse(t *testing.T) {
	for name, target := range map[string]any{"value": manifest{}, "nil": nil, "nil pointer": (*manifest)(nil)} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("want a panic")
				}
			}()
			_ = strictyaml.Unmarshal([]byte("{}"), target)
		})
	}
}

func TestTypes(t *testing.T) {
	run(t, []row{
		{"number", "small: 255", "", 0, 0},
		{"out of range", "small: 256", strictyaml.CodeType, 1, 8},
		{"negative where unsigned", "small: -1", strictyaml.CodeType, 1, 8},
		{"fraction where whole", "mode: 1.0", strictyaml.CodeType, 1, 7},
		{"exponent where whole", "mode: 1e3", strictyaml.CodeType, 1, 7},
		{"quoted number", `mode: "1"`, strictyaml.CodeType, 1, 7},
		{"text where a number belongs", "mode: one", strictyaml.CodeType, 1, 7},
		{"float", "ratio: 0.1", "", 0, 0},
		{"infinite float", "ratio: .inf", strictyaml.CodeType, 1, 8},
		{"float overflow", "ratio: 1e999", strictyaml.CodeType, 1, 8},
		{"integer key", "ports: {80: http}", "", 0, 0},
		{"text key where integer belongs", "ports: {a: http}", strictyaml.CodeType, 1, 9},
		{"octal key", "ports: {010: http}", strictyaml.CodeType, 1, 9},
		{"list", "steps: []", "", 0, 0},
		{"mapping where a list belongs", "steps: {}", strictyaml.CodeType, 1, 8},
		{"text where a list belongs", "steps: a", strictyaml.CodeType, 1, 8},
		{"text where a mapping belongs", "steps: [a]", strictyaml.CodeType, 1, 9},
		{"list where text belongs", "name: [a]", strictyaml.CodeType, 1, 7},
		{"mapping where text belongs", "name:\n  a: b", strictyaml.CodeType, 2, 3},
		{"list where a mapping belongs", "- a", strictyaml.CodeType, 1, 1},
		{"mapping where a digest belongs", "sum: {}", strictyaml.CodeType, 1, 6},
		{"array", "pair: [a, b]", "", 0, 0},
		{"array too short", "pair: [a]", strictyaml.CodeType, 1, 7},
		{"duration", "wait: 90s", "", 0, 0},
		{"duration without unit", "wait: 90", strictyaml.CodeType, 1, 7},
		{"duration that is none", "wait: long", strictyaml.CodeType, 1, 7},
		{"time", "time: 2026-01-02T03:04:05Z", "", 0, 0},
		{"time that is none", "time: 2026-01-02", strictyaml.CodeType, 1, 7},
		{"text that a type refuses", "sum: md5:00", strictyaml.CodeType, 1, 6},
		{"empty value", "name:\nmode: 1", strictyaml.CodeType, 1, 6},
		{"null", "steps: null", strictyaml.CodeType, 1, 8},
		{"tilde", "env: {A: ~}", strictyaml.CodeType, 1, 10},
		{"empty text", `name: ""`, "", 0, 0},
		{"null where anything goes", "any: null", "", 0, 0},
		{"own method, word", "words: one", "", 0, 0},
		{"own method, list", "words: [one, two]", "", 0, 0},
		{"own method, strict inside", "words: [one,\n  no]", strictyaml.CodeType, 2, 3},
		{"own method, refuses", `words: ""`, strictyaml.CodeType, 1, 8},
		{"list as key", "? [a]\n: b", strictyaml.CodeType, 1, 3},
		{"mapping as key", "any: {{a: b}: c}", strictyaml.CodeType, 1, 7},
	})
	err := strictyaml.Unmarshal([]byte("sum: md5:00"), new(manifest))
	var form *digest.FormError
	if !errors.As(err, &form) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestSyntax(t *testing.T) {
	run(t, []row{
		{"unclosed list", "any: [a\n", strictyaml.CodeSyntax, 1, 1},
		{"unclosed quote", "\n  any: 'a", strictyaml.CodeSyntax, 2, 3},
		{"nested on one line", "a: b: c", strictyaml.CodeSyntax, 1, 1},
		{"reserved indicator", "name: a\nplain: @x", strictyaml.CodeSyntax, 2, 1},
		{"half of a surrogate pair", `name: "\ud800"`, strictyaml.CodeSyntax, 1, 1},
	})
}

func TestLimits(t *testing.T) {
	deep := func(n int) string { return "any: " + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) }
	keys := func(n int) string {
		var b strings.Builder
		b.WriteString("any:\n")
		for i := range n {
			b.WriteString(" k" + strings.Repeat("x", i%100) + strings.Repeat("y", i/100) + ": 1\n")
		}
		return b.String()
	}
	run(t, []row{
		{"deep", deep(32), "", 0, 0},
		{"too deep", deep(33), strictyaml.CodeDepth, 1, 37},
		{"depth bomb", strings.Repeat("[", 1<<20), strictyaml.CodeSyntax, 1, 1},
		{"large", "name: a\n#" + strings.Repeat("x", 1<<20-9), "", 0, 0},
		{"too large", "name: a\n#" + strings.Repeat("x", 1<<20-8), strictyaml.CodeSize, 2, 1<<20 - 7},
		{"many keys", keys(2048), "", 0, 0},
		{"too many keys", keys(2049), strictyaml.CodeSize, 2, 2},
	})
}

// large are documents of n nodes in shapes that once took a search from the
// start of the line for each node.
func large(n int) map[string]string {
	return map[string]string{
		"numbers on one line":  "any: [" + strings.Repeat("1,", n) + "1]",
		"mappings on one line": "any: [" + strings.Repeat("{a: 1},", n/4) + "1]",
		"empties on one line":  "any: [" + strings.Repeat("{},", n/2) + "1]",
		"numbers on many":      "any:\n" + strings.Repeat("- 1\n", n/2),
	}
}

func TestLargeDocumentsAreRead(t *testing.T) {
	if testing.Short() {
		t.Skip("reads large documents")
	}
	for name, doc := range large(1 << 18) {
		if err := strictyaml.Unmarshal([]byte(doc), new(manifest)); err != nil {
			t.Errorf("%s: %.200s", name, err)
		}
	}
}

// BenchmarkLargeDocuments should show one time per byte in both sizes.
func BenchmarkLargeDocuments(b *testing.B) {
	for _, n := range []int{1 << 14, 1 << 18} {
		for name, doc := range large(n) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(doc)))
				for b.Loop() {
					if err := strictyaml.Unmarshal([]byte(doc), new(manifest)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func TestErrorsQuoteAndTruncate(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for name, doc := range map[string]string{
		"control characters in a key":   `"\e[2J\r\n": 1`,
		"control characters in a value": `push: "\e[2J\r\n"`,
		"control characters to a type":  `sum: "\e[2J\r\n"`,
		"bidi override":                 `"\u202ekind": 1`,
		"long key":                      long + ": 1",
		"long value":                    "push: " + long,
		"long value to a type":          "sum: " + long,
		"long time":                     "time: " + long,
		"long anchor":                   "any: &" + long + " 1",
		"long unknown alias":            "any: *" + long,
		"words of a method":             `words: ""`,
	} {
		err := strictyaml.Unmarshal([]byte(doc), new(manifest))
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if msg := err.Error(); len(msg) > 1000 || strings.ContainsAny(msg, "\x1b\r\n\u202e") {
			t.Errorf("%s: %d bytes, %.300q", name, len(msg), msg)
		}
	}
}

func TestErrorReads(t *testing.T) {
	err := strictyaml.Unmarshal([]byte("steps:\n- On: server"), new(manifest))
	if want := `reading YAML at 2:3: unknown key "On"; known here: on, run (YAML_UNKNOWN_KEY)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
