package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// page is an architecture page with the layout and one public package, and with
// what is appended to it.
func page(more string) string {
	var b strings.Builder
	b.WriteString("# Architecture\n\n| folder | what it holds | other projects may import | may not |\n|---|---|---|---|\n")
	for _, f := range layout {
		mayNot, public := "", ""
		if f.pure {
			mayNot = "the same"
		}
		if f.path == "pkg/value" {
			public = "`digest`"
		}
		fmt.Fprintf(&b, "| `%s` | x | %s | %s |\n", f.path, public, mayNot)
	}
	return b.String() + "\n" + more
}

// fourBlocks is a page's code, and the test file that it is part of.
const (
	fourBlocks = "```go a_test.go\nvar a = 1\n```\n\n```go a_test.go\nvar b = 2\n```\n\n```go a_test.go\nvar c = 3\n```\n\n```go a_test.go\nvar d = 4\n```\n"
	fourVars   = "package a\n\nvar a = 1\n\nvar b = 2\n\nvar c = 3\n\nvar d = 4\n\nfunc Example() {}\n"
)

func pageSeeds() []seed {
	digest := map[string]string{"pkg/value/digest/a.go": "package digest"}
	with := func(files map[string]string, name, text string) map[string]string {
		all := map[string]string{name: text}
		for k, v := range files {
			all[k] = v
		}
		return all
	}
	example := "package digest_test\nfunc Example() {\n\t// Output: x\n}\n"
	return []seed{
		{"page layout", `row 1 of the layers is "pkg/tools"`,
			one(architecturePage, strings.Replace(page(""), "pkg/tool", "pkg/tools", 1)), one(architecturePage, page(""))},
		{"page layout", `row 1 of the layers is "pkg/tool", which may see files: true`,
			one(architecturePage, strings.Replace(page(""), "the same", "", 1)), one(architecturePage, page(""))},
		{"page layout", "the limit is 170", one(architecturePage, page(strings.Repeat("\n", 170))), one(architecturePage, page(strings.Repeat("\n", 100)))},
		{"page paths", "names pkg/gate/lost.go, which does not exist",
			with(everyFolder(), architecturePage, page("`pkg/gate/lost.go`\n")), with(everyFolder(), architecturePage, page("`pkg/gate/a.go`\n"))},
		{"page examples", "differs from a_test.go",
			with(one("a_test.go", strings.Replace(fourVars, "d = 4", "d = 5", 1)), architecturePage, page(fourBlocks)),
			with(one("a_test.go", fourVars), architecturePage, page(fourBlocks))},
		{"page examples", "want a test file that runs it",
			with(one("a_test.go", strings.Replace(fourVars, "Example", "help", 1)), architecturePage, page(fourBlocks)),
			with(one("a_test.go", fourVars), architecturePage, page(fourBlocks))},
		{"page examples", "shows 3 blocks of Go",
			with(one("a_test.go", fourVars), architecturePage, page(strings.Replace(fourBlocks, "```go", "```", 1))),
			with(one("a_test.go", fourVars), architecturePage, page(fourBlocks))},
		{"folder readmes", "pkg/value/README.md is missing", digest, with(digest, "pkg/value/README.md", "- `digest`: x\n")},
		{"folder readmes", "pkg/value/README.md does not name the package pkg/value/digest",
			with(digest, "pkg/value/README.md", "About `digest`.\n"), with(digest, "pkg/value/README.md", "- `digest`: x\n")},
		{"folder readmes", "names pkg/value/digests, which is no package",
			with(digest, "pkg/value/README.md", "- `digest`, `digests`: x\n"), with(digest, "pkg/value/README.md", "- `digest`: see `digests`\n")},
		{"folder readmes", "pkg/value/README.md has 13 lines",
			with(digest, "pkg/value/README.md", "- `digest`: x\n"+strings.Repeat("\n", 12)), with(digest, "pkg/value/README.md", "- `digest`: x\n"+strings.Repeat("\n", 11))},
		{"folder readmes", "does not name the package pkg/gate", map[string]string{"pkg/gate/a.go": "package gate", "pkg/gate/README.md": "About `gate`.\n"},
			map[string]string{"pkg/gate/a.go": "package gate", "pkg/gate/README.md": "- `gate`: x\n"}},
		{"public examples", `names "digest", which is no package`, one(architecturePage, page("")),
			with(one("pkg/value/digest/a_test.go", example), architecturePage, strings.Replace(page(""), "`digest`", "", 1))},
		{"public examples", "pkg/value/digest is public and has no Example function",
			with(with(digest, "pkg/value/digest/a_test.go", strings.Replace(example, "// Output: x", "", 1)), architecturePage, page("")),
			with(with(digest, "pkg/value/digest/a_test.go", example), architecturePage, page(""))},
	}
}

// everyFolder has a file in each folder of the layout.
func everyFolder() map[string]string {
	files := map[string]string{}
	for _, f := range layout {
		files[f.path+"/a.go"] = "package a"
	}
	return files
}

func TestArchPublicRefusesSeeds(t *testing.T) {
	const shows = "pkg/public.%s shows pkg/hidden.T"
	for _, s := range []struct{ by, planted, twin string }{
		{"F", "func F() hidden.T { return hidden.T{} }", "func f() hidden.T { return hidden.T{} }"},
		{"F", "func F(...map[string][]*hidden.T) {}", "func F(...map[string][]*int) { _ = hidden.T{} }"},
		{"V", "var V hidden.T", "var v hidden.T"},
		{"S", "type S struct{ T hidden.T }", "type S struct{ t hidden.T }"},
		{"S", "type S struct{ hidden.T }", "type s struct{ hidden.T }"},
		{"S", "type S struct{}\nfunc (*S) M(hidden.T) {}", "type S struct{}\nfunc (*S) m(hidden.T) {}"},
		{"I", "type I interface{ M(func() hidden.T) }", "type I interface{ M(func()) }\nvar _ hidden.T"},
		{"A", "type A = hidden.T", "type a = hidden.T"},
		{"G", "type G[P interface{ *hidden.T }] struct{}", "type g[P interface{ *hidden.T }] struct{}"},
		{"New", "type s struct{}\nfunc (s) M() hidden.T { return hidden.T{} }\nfunc New() s { return s{} }", "type s struct{}\nfunc (s) m() hidden.T { return hidden.T{} }\nfunc New() s { return s{} }"},
	} {
		t.Run(s.planted, func(t *testing.T) {
			want := fmt.Sprintf(shows, s.by)
			got := showsHidden(publicSeed(t, s.planted), []string{"pkg/public"})
			if len(got) == 0 || got[0].String() != want {
				t.Errorf("planted: %v, want %s", got, want)
			}
			if got := showsHidden(publicSeed(t, s.twin), []string{"pkg/public"}); len(got) > 0 {
				t.Errorf("twin: %v, want nothing", got)
			}
		})
	}
}

// publicSeed is a public package that imports one that is not.
func publicSeed(t *testing.T, text string) *types.Package {
	t.Helper()
	set := token.NewFileSet()
	from := importers{}
	for _, one := range []struct{ name, text string }{
		{"hidden", "package hidden\ntype T struct{}\n"},
		{"public", "package public\nimport \"" + modulePath + "/pkg/hidden\"\n" + text},
	} {
		file, err := parser.ParseFile(set, one.name+".go", one.text, 0)
		if err != nil {
			t.Fatal(err)
		}
		where := modulePath + "/pkg/" + one.name
		checker := types.Config{Importer: from}
		if from[where], err = checker.Check(where, set, []*ast.File{file}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return from[modulePath+"/pkg/public"]
}

// importers are packages by their path.
type importers map[string]*types.Package

func (i importers) Import(where string) (*types.Package, error) {
	if p := i[where]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package %s", where)
}
