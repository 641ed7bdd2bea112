package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// referencePages is where the pages are.
const referencePages = "../../docs/reference"

// readers are the functions that read the files that people write, by kind.
func readers() map[string]func(raw []byte) error {
	return map[string]func(raw []byte) error{
		"release":     func(raw []byte) error { _, err := plan.ParseConfig(raw); return err },
		"lock":        func(raw []byte) error { _, err := plan.ParseLock(raw); return err },
		"profile":     profile.Check,
		"policy":      func(raw []byte) error { _, err := policy.Parse(raw, nil); return err },
		"service":     func(raw []byte) error { _, err := serve.ParseConfig(raw, "."); return err },
		"callers":     func(raw []byte) error { _, err := caller.Parse(raw); return err },
		"features":    func(raw []byte) error { _, err := config.ParseConfig(raw, ".", known.Registry()); return err },
		"revocations": func(raw []byte) error { _, err := gate.ParseRevocations(raw); return err },
		"defects":     func(raw []byte) error { _, err := knowndefects.ParseFile(raw); return err },
		"declaration": func(raw []byte) error { _, err := declaration.ParseFile(raw); return err },
		"promoter":    func(raw []byte) error { _, err := promoterfile.Parse("example.yaml", raw); return err },
		"signoff":     func(raw []byte) error { _, err := signoff.ParseRecord(raw); return err },
		"registry":    func(raw []byte) error { _, err := signoff.ParseRegistry(raw); return err },
		"expected":    func(raw []byte) error { _, err := k8slayout.ParseList(raw); return err },
	}
}

// referencePage has what a page is made of.
type referencePage struct {
	documented
	example string
	raw     []byte
}

func referencesOf(t *testing.T) (all []referencePage) {
	t.Helper()
	for _, d := range documentKinds() {
		if strings.HasPrefix(d.what, "output: ") {
			continue
		}
		raw, err := d.text()
		if err != nil {
			t.Fatal(err)
		}
		example, err := os.ReadFile(filepath.Join("testdata", "reference", d.name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, referencePage{d, string(example), raw})
	}
	if len(all) != len(readers()) {
		t.Fatalf("%d kinds have a page, %d a reader", len(all), len(readers()))
	}
	return all
}

// TestReferenceExamples: the example of each kind satisfies its reader and its schema.
// An unknown key, in any of its objects, is refused by both or, where keys are free, by
// neither.
func TestReferenceExamples(t *testing.T) {
	for _, r := range referencesOf(t) {
		read, s := readers()[r.name], checkschema.Load(t, r.raw)
		if err := read([]byte(r.example)); err != nil {
			t.Errorf("%s: the reader refuses the example: %v", r.name, err)
		}
		if err := s.Accepts(r.example); err != nil {
			t.Errorf("%s: the schema refuses the example: %v", r.name, err)
		}
		for n := 0; ; n++ {
			text, more := withUnknownKey(t, r.example, n)
			if !more {
				break
			}
			byReader, bySchema := read([]byte(text)), s.Accepts(text)
			if bySchema == nil && byReader != nil && strings.Contains(byReader.Error(), `each.unknown: no list "x"`) {
				continue // variables have any name; a schema does not know the lists
			}
			if (byReader == nil) != (bySchema == nil) || n == 0 && bySchema == nil {
				t.Errorf("%s: with an unknown key in object %d the reader says %v, the schema %v", r.name, n, byReader, bySchema)
			}
		}
	}
}

// withUnknownKey adds a key to one object of a document, the top being number 0.
func withUnknownKey(t *testing.T, text string, number int) (changed string, more bool) {
	t.Helper()
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	objects := 0
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		if n.Kind == yaml.MappingNode {
			if objects == number {
				n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "unknown"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "x"})
				more = true
			}
			objects++
		}
		for _, child := range n.Content {
			visit(child)
		}
	}
	visit(&root)
	raw, err := yaml.Marshal(&root)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), more
}

// TestReferenceEveryKey: each key of each schema has a description and a type, and the
// schema has the address of its copy in docs/reference, which examples name.
func TestReferenceEveryKey(t *testing.T) {
	for _, r := range referencesOf(t) {
		const home = "https://raw.githubusercontent.com/waybill-release/waybill/main/docs/reference/"
		if !strings.Contains(string(r.raw), `"$id": "`+home+r.name+`.schema.json"`) {
			t.Errorf("%s: want the $id %s%s.schema.json", r.name, home, r.name)
		}
		if first, _, _ := strings.Cut(r.example, "\n"); first != "# yaml-language-server: $schema="+home+r.name+".schema.json" {
			t.Errorf("%s: the example begins with %q", r.name, first)
		}
		keys := 0
		for _, o := range sectionsOf(t, r.raw) {
			for _, k := range o.keys {
				keys++
				if k.kind == "" || !strings.HasSuffix(strings.TrimSpace(k.what), ".") {
					t.Errorf("%s: %s%s: type %q, description %q: want both, and a sentence", r.name, o.path, k.name, k.kind, k.what)
				}
			}
		}
		if keys < 2 {
			t.Errorf("%s has %d keys", r.name, keys)
		}
	}
}

// TestPageReference compares the pages and schemas of docs/reference with their sources.
// "make docs-pages" writes them.
func TestPageReference(t *testing.T) {
	pages := map[string]string{"README.md": indexPage(t)}
	for _, r := range referencesOf(t) {
		pages[r.name+".md"], pages[r.name+".schema.json"] = r.page(t), string(r.raw)
	}
	there, err := filepath.Glob(referencePages + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if _, made := pages[filepath.Base(path)]; !made {
			t.Errorf("%s is no page of a kind", path)
		}
	}
	for name, text := range pages {
		path := filepath.Join(referencePages, name)
		if os.Getenv("WAYBILL_GOLDEN") == "write" {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != text {
			t.Errorf("docs/reference/%s is not what its sources say (%v): run make docs-pages", name, err)
		}
	}
}

func indexPage(t *testing.T) string {
	t.Helper()
	text := "# References\n\nA page for each file that people write. Each has an example, and every key with its type and default. `waybill schema KIND` prints\n" +
		"the JSON schema, which is also beside the page; an editor with a language server for YAML uses it if the file begins with the comment\n" +
		"that the example has. The readers skip comments, and refuse every key that is not on the page.\n\n| kind | what it is |\n|---|---|\n"
	for _, r := range referencesOf(t) {
		text += fmt.Sprintf("| [%s](%s.md) | %s |\n", r.name, r.name, r.what)
	}
	return text + "\n`make docs-pages` writes these pages from the schemas, and from the examples in `cmd/waybill/testdata/reference`, which tests load.\n"
}

// page is the page of one kind.
func (r referencePage) page(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i, o := range sectionsOf(t, r.raw) {
		if i == 0 {
			fmt.Fprintf(&b, "# %s\n\n%s\n\nThe kind for `waybill schema` is `%s`; the schema is [%s.schema.json](%s.schema.json). [All references](README.md).\n\n```yaml\n%s```\n",
				o.title, o.what, r.name, r.name, r.name, r.example)
		}
		title := "Keys"
		if i > 0 {
			title = "`" + o.path + "`"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| key | type | default | what it does |\n|---|---|---|---|\n", title)
		for _, k := range o.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, k.kind, k.fallback, strings.ReplaceAll(k.what, "|", "\\|"))
		}
	}
	return b.String()
}

// section is one object of a schema, with its keys in order.
type section struct {
	path, title, what string
	keys              []sectionKey
}

type sectionKey struct{ name, kind, fallback, what string }

// sectionsOf lists the objects of a schema. An object that several keys refer to is
// listed once.
func sectionsOf(t *testing.T, raw []byte) []section {
	t.Helper()
	var document yaml.Node // keeps the order of keys
	if err := yaml.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	root := document.Content[0]
	s := schemaPage{root: root, pathOf: map[*yaml.Node]string{}}
	s.claim("", root)
	for i := range s.all {
		s.all[i].what, s.all[i].title = scalar(s.nodes[i], "description"), scalar(s.nodes[i], "title")
		s.fill(&s.all[i], s.nodes[i])
	}
	return s.all
}

type schemaPage struct {
	root   *yaml.Node
	all    []section
	nodes  []*yaml.Node
	pathOf map[*yaml.Node]string
}

func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func scalar(n *yaml.Node, key string) string {
	if c := child(n, key); c != nil {
		return c.Value
	}
	return ""
}

func (s *schemaPage) resolve(n *yaml.Node) *yaml.Node {
	for ref := scalar(n, "$ref"); ref != ""; ref = scalar(n, "$ref") {
		n = s.root
		for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			n = child(n, step)
		}
	}
	return n
}

// claim gives every object below a node its section, keys of one object before those of
// the next.
func (s *schemaPage) claim(path string, n *yaml.Node) {
	type part struct {
		path string
		node *yaml.Node
	}
	parts := []part{{path, n}}
	for len(parts) > 0 {
		p := parts[0]
		parts = parts[1:]
		if n = s.resolve(p.node); n == nil || s.pathOf[n] != "" {
			continue
		}
		if properties := child(n, "properties"); properties != nil && len(properties.Content) > 0 {
			s.all, s.nodes = append(s.all, section{path: p.path}), append(s.nodes, n)
			if s.pathOf[n] = p.path; p.path == "" {
				s.pathOf[n] = " "
			}
			for i := 0; i < len(properties.Content); i += 2 {
				parts = append(parts, part{strings.TrimPrefix(p.path+"."+properties.Content[i].Value, "."), properties.Content[i+1]})
			}
		}
		if rest := child(n, "additionalProperties"); rest != nil && rest.Kind == yaml.MappingNode {
			parts = append(parts, part{p.path + ".NAME", rest})
		}
		if items := child(n, "items"); items != nil {
			parts = append(parts, part{p.path + "[]", items})
		}
		if forms := child(n, "anyOf"); forms != nil && child(n, "properties") == nil {
			for _, form := range forms.Content {
				parts = append(parts, part{p.path, form})
			}
		}
	}
}

func (s *schemaPage) fill(o *section, n *yaml.Node) {
	var required []string
	if list := child(n, "required"); list != nil {
		for _, r := range list.Content {
			required = append(required, r.Value)
		}
	}
	properties := child(n, "properties")
	for i := 0; i < len(properties.Content); i += 2 {
		name, p := properties.Content[i].Value, properties.Content[i+1]
		k := sectionKey{name: name, kind: s.kind(p), fallback: "none", what: scalar(p, "description")}
		if k.what == "" {
			k.what = scalar(s.resolve(p), "description")
		}
		if value := child(p, "default"); value != nil {
			k.fallback = "`" + inline(value) + "`"
		}
		if slices.Contains(required, name) {
			k.fallback = "required"
		}
		o.keys = append(o.keys, k)
	}
}

// inline is a value in one line.
func inline(n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		var all []string
		for _, c := range n.Content {
			all = append(all, inline(c))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return n.Value
}

// kind describes the type of a key in words.
func (s *schemaPage) kind(p *yaml.Node) string {
	n := s.resolve(p)
	title, words := scalar(n, "title"), child(n, "enum")
	switch {
	case child(n, "not") != nil:
		return "not allowed"
	case child(n, "const") != nil:
		return "`" + scalar(n, "const") + "`"
	case words != nil:
		var all []string
		for _, w := range words.Content {
			all = append(all, "`"+w.Value+"`")
		}
		return strings.Join(all, ", ")
	case s.pathOf[n] != "" && n != s.root:
		return "[mapping](#" + anchor(s.pathOf[n]) + ")"
	case title != "":
		return title
	}
	switch kind := child(n, "type"); {
	case kind == nil:
		var forms []string
		if any := child(n, "anyOf"); any != nil {
			for _, form := range any.Content {
				forms = append(forms, s.kind(form))
			}
		}
		return strings.Join(forms, ", or ")
	case kind.Kind == yaml.SequenceNode:
		return "text, number, or true or false"
	case kind.Value == "string":
		return "text"
	case kind.Value == "boolean":
		return "true or false"
	case kind.Value == "integer" && child(n, "minimum") != nil && child(n, "maximum") != nil:
		return fmt.Sprintf("number from %s to %s", scalar(n, "minimum"), scalar(n, "maximum"))
	case kind.Value == "integer" && child(n, "minimum") != nil:
		return "number from " + scalar(n, "minimum")
	case kind.Value == "integer":
		return "number"
	case kind.Value == "array":
		return "list of " + s.kind(child(n, "items"))
	}
	return "mapping from name to " + s.kind(child(n, "additionalProperties"))
}

// anchor is the address of a heading, as GitHub makes it.
func anchor(path string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(".[]`", r) {
			return -1
		}
		return r
	}, strings.ToLower(path))
}
