package lineage

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// shown is what a person sees.
func shown(t *testing.T, l Lineage) string {
	t.Helper()
	var out bytes.Buffer
	if err := (Writer{Format: Table}).Write(&out, l); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestTree: the whole of a small tree, as it is printed.
func TestTree(t *testing.T) {
	trail := tree(t)
	sealed := manifest.Manifest{Name: "lantern", Revision: 1, Runs: []manifest.Run{
		manifest.RunOf("build", "invocation-1", trace.IDs{Trace: id(t, "1"), Initial: id(t, "1")}, "waybill stage"),
		manifest.RunOf("seal", id(t, "1").String(), trace.IDs{Trace: id(t, "1"), Initial: id(t, "1")}, "waybill stage"),
	}}
	var err error
	if sealed.Version, err = version.Parse("v0.1.0"); err != nil {
		t.Fatal(err)
	}
	sealed.Source.Commit = "0123456789abcdef"
	trail.sealed = []foundManifest{{Manifest: sealed, Signer: signed("manifest"), found: []string{"release", "eu"}}}
	trail.acts[1].Log = &Log{Digest: sum("log"), Path: "state/logs/b.log"}
	old := Act{Kind: Signature, Signer: Signer{Mark: Hint, Why: "the policy does not know who signed it", By: "stranger@example.test", Evidence: sum("old")}, Artifacts: []Artifact{made("b")}}
	trail.add("eu", old)
	l, err := trail.Of(ask(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	want := `b

lantern v0.1.0, revision 1, commit 0123456789ab  verified
  initial trace 11111111111111111111111111111111
  found at release, eu

├─ 2026-03-01 12:00:00Z  waybill stage (build, seal)  3s
│  │  trace 11111111111111111111111111111111  verified
│  │  invocation invocation-1
│  │  signed by builder@example.test
│  ├─ 12:00:00 █████······· step a (upstream)
│  │     by builder@example.test (builder) at 12:00:00, log entry 7
│  │     a sha256:ca978112ca1b…
│  └─ 12:00:02 ········████ step b
│        by builder@example.test (builder) at 12:00:00, log entry 7
│        b sha256:3e23e8160039…
│        log  sha256:836ff184e7b4… state/logs/b.log
├─ 2026-03-08 14:00:00Z  promotion  +7d
│  │  trace 22222222222222222222222222222222  verified
│  │  signed by builder@example.test
│  └─ 14:00:00 ············ promoted 1 image
│        by builder@example.test (builder), log entry 7
│        from staging/b
│        to   eu/b v1
│        b sha256:3e23e8160039…
└─ --------------------  in no known run
   │  origin unknown: no evidence here names a trace
   │  signed by stranger@example.test
   └─ -------- ············ signed 1 artifact  hint
         the policy does not know who signed it
         by stranger@example.test
         b sha256:3e23e8160039…
`
	if got := shown(t, l); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTreeFits: nothing of ours is wider than a page, whatever is in it.
func TestTreeFits(t *testing.T) {
	trail := Start(Believed{})
	for i := range 30 {
		a := step("step-"+strings.Repeat("x", i), id(t, "1"), time.Duration(i)*time.Second)
		for j := range 20 {
			a.Artifacts = append(a.Artifacts, made("bin/linux/amd64/"+strings.Repeat("y", j)))
		}
		trail.add("state", a)
	}
	l, err := trail.Of(ask(t, id(t, "1").String()))
	if err != nil {
		t.Fatal(err)
	}
	text := shown(t, l)
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if !strings.Contains(text, "and 17 more; --verbose lists all") {
		t.Errorf("it is not said what is left out:\n%s", text)
	}
}

// TestFindingsOfThePlace: bytes that are not the ones that were signed are not
// told as two ids, of which one is kept; and it is said in which file they are.
func TestFindingsOfThePlace(t *testing.T) {
	broken := inFile("release.vsa.sigstore.json", verdict.Refuse(verdict.BundleParse, "bundle", "it ends early"))
	named := inFile("a.sigstore.json", verdict.Refuse(verdict.NotBound, "a.sigstore.json", "it signs other bytes"))
	got := shown(t, Lineage{Findings: []verdict.Finding{
		verdict.Find(verdict.Tampered, "a", "changed").Differ("this", "that"),
		verdict.Find(verdict.TraceConflict, "b", "another").Differ("this", "that"),
		verdict.FindingOf("", broken), verdict.FindingOf("", named),
	}})
	for _, said := range []string{
		"TAMPERED  a\n  changed\n  want  this\n  got   that\n", "TRACE_CONFLICT  b\n  another\n  kept  this\n  not   that\n",
		"BUNDLE_PARSE  release.vsa.sigstore.json bundle\n  it ends early\n  → ", "NOT_BOUND  a.sigstore.json\n  it signs other bytes\n",
	} {
		if !strings.Contains(got, said) {
			t.Errorf("want %q in\n%s", said, got)
		}
	}
}

// TestSameActsAreOneLine: what one signer did to many artifacts is one branch.
func TestSameActsAreOneLine(t *testing.T) {
	var acts []Act
	for i, name := range []string{"a", "b", "c"} {
		a := Act{Kind: Signature, Signer: signed(name), Artifacts: []Artifact{made(name)}}
		a.Entry = &Entry{"log", int64(9 - i)}
		acts = append(acts, a)
	}
	other := acts[0]
	other.By = "somebody else"
	list := joined(append(acts, other))
	if len(list) != 2 || list[0].title() != "signed 3 artifacts" || !strings.HasSuffix(list[0].signed(), "log entry 7 and 2 more") || list[1].title() != "signed 1 artifact" {
		t.Errorf("%+v", list)
	}
	if acts[0].Artifacts[0] != made("a") || len(acts[0].Artifacts) != 1 {
		t.Error("joining changed the acts")
	}
}

// TestLineOfLogIsShown: the act that wrote a line is marked.
func TestLineOfLogIsShown(t *testing.T) {
	trail := tree(t)
	span := trace.SpanID{7}
	trail.acts[1].IDs.Span = span
	l, err := trail.Of(OfLines("on stdin", []Line{{Line: 3, Trace: id(t, "1"), Span: span, Count: 2}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"line 3 and 1 more trace 1111", "step b  ← line 3", "artifacts  2"} {
		if !strings.Contains(shown(t, l), part) {
			t.Errorf("no %q in\n%s", part, shown(t, l))
		}
	}
}

// node is what the test reads of the schema.
type node struct {
	Ref        string          `json:"$ref"`
	Properties map[string]node `json:"properties"`
	Required   []string        `json:"required"`
	Items      *node           `json:"items"`
	Enum       []string        `json:"enum"`
	Defs       map[string]node `json:"$defs"`
}

// TestSchemaNamesEveryField: the schema has exactly the fields of the value, and
// requires exactly those that are always there.
func TestSchemaNamesEveryField(t *testing.T) {
	var root node
	if err := json.Unmarshal(JSONSchema(), &root); err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var match func(at string, n node, kind reflect.Type)
	match = func(at string, n node, kind reflect.Type) {
		if n.Ref != "" {
			n = root.Defs[strings.TrimPrefix(n.Ref, "#/$defs/")]
		}
		for kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Slice && n.Items != nil {
			match(at+"[]", *n.Items, kind.Elem())
			return
		}
		if len(n.Properties) == 0 || kind.Kind() != reflect.Struct || seen[kind] {
			return
		}
		seen[kind] = true
		fields := map[string]reflect.Type{}
		var required []string
		for _, f := range reflect.VisibleFields(kind) {
			name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "" {
				continue
			}
			if name == "known" {
				continue // of a verdict's findings only
			}
			fields[name] = f.Type
			if !strings.Contains(rest, "omit") {
				required = append(required, name)
			}
		}
		for name, kind := range fields {
			p, is := n.Properties[name]
			if !is {
				t.Errorf("%s.%s is not in the schema", at, name)
				continue
			}
			match(at+"."+name, p, kind)
		}
		for name := range n.Properties {
			if _, is := fields[name]; !is {
				t.Errorf("the schema has %s.%s, the value has not", at, name)
			}
		}
		slices.Sort(required)
		slices.Sort(n.Required)
		if !slices.Equal(required, n.Required) {
			t.Errorf("%s: the schema requires %v, always there are %v", at, n.Required, required)
		}
	}
	match("lineage", root, reflect.TypeFor[Lineage]())
	kinds := []Kind{Step, Signature, Seal, Amendment, Withdrawal, Promotion, Summary, Statement, Command}
	if enum := root.Defs["Act"].Properties["kind"].Enum; len(enum) != len(kinds) || !slices.ContainsFunc(kinds, func(k Kind) bool { return slices.Contains(enum, string(k)) }) {
		t.Errorf("kinds %v", enum)
	}
}
