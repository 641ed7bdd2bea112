package arch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// A seed is a violation planted in a small tree of its own, and its twin: the
// same tree with one fact changed, which must pass.
type seed struct {
	check   string
	want    string // part of the refusal
	planted map[string]string
	twin    map[string]string
}

// one is a tree of one file.
func one(name, text string) map[string]string { return map[string]string{name: text} }

// lines is a Go file of n lines.
func lines(n int) string { return "package seed\n" + strings.Repeat("\n", n-1) }

// body is a function of n lines.
func body(n int) string { return "package seed\nfunc f() {\n" + strings.Repeat("\n", n-2) + "}\n" }

// imports is a file that imports a package of ours.
func imports(pkg, room string) string {
	return fmt.Sprintf("package %s\nimport _ %q\n", pkg, modulePath+"/"+room)
}

func TestArchRefusesSeeds(t *testing.T) {
	asked := map[string]bool{}
	for _, seeds := range [][]seed{layoutSeeds(), symbolSeeds(), sizeSeeds(), variableSeeds(), documentSeeds(), moduleSeeds(), transportSeeds(), requestSeeds(), adviseSeeds(), methodSeeds(), pageSeeds(), privateSeeds()} {
		for _, s := range seeds {
			asked[s.check] = true
			t.Run(s.check+"/"+s.want, func(t *testing.T) {
				i := slices.IndexFunc(checks, func(c check) bool { return c.name == s.check })
				if i < 0 {
					t.Fatalf("there is no check %q", s.check)
				}
				got := checks[i].ask(parseTree(t, planted(s.planted)))
				if !slices.ContainsFunc(got, func(r string) bool { return strings.Contains(r, s.want) }) {
					t.Errorf("planted: refusals %q, want one with %q", got, s.want)
				}
				if got := checks[i].ask(parseTree(t, planted(s.twin))); len(got) > 0 {
					t.Errorf("twin: refusals %q, want none", got)
				}
			})
		}
	}
	for _, c := range checks {
		if !asked[c.name] {
			t.Errorf("no seed proves that the check %q refuses anything", c.name)
		}
	}
}

func planted(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func layoutSeeds() []seed {
	return []seed{
		{"layout", "pkg/judge/verify imports pkg/backend/store: pkg/backend comes after pkg/judge in the layout (move the call down, or the value up)",
			one("pkg/judge/verify/a.go", imports("verify", "pkg/backend/store")), one("pkg/judge/verify/a.go", imports("verify", "pkg/judge/trust"))},
		{"layout", "pkg/value/digest imports pkg/document/intoto: pkg/document comes after pkg/value",
			one("pkg/value/digest/a.go", imports("digest", "pkg/document/intoto")), one("pkg/value/digest/a_test.go", imports("digest", "pkg/document/intoto"))},
		{"layout", "attestations/exception/v1 imports pkg/release/plan: pkg/release comes after attestations",
			one("attestations/exception/v1/a.go", imports("v1", "pkg/release/plan")), one("pkg/release/plan/a.go", imports("plan", "attestations/exception/v1"))},
		{"layout", "pkg/gatekeeper is in no folder of the layout: move it into the one that says what it does",
			one("pkg/gatekeeper/a.go", "package gatekeeper"), one("pkg/gate/a.go", "package gate")},
		{"layout", "pkg/produce/seal imports pkg/novel: it is in no folder of the layout",
			one("pkg/produce/seal/a.go", imports("seal", "pkg/novel")), one("pkg/produce/seal/a.go", imports("seal", "pkg/produce/sign"))},
		{"layout", "pkg/gate imports cmd/internal/ui: cmd comes after pkg/gate",
			one("pkg/gate/a.go", imports("gate", "cmd/internal/ui")), one("cmd/waybill/a.go", imports("main", "cmd/internal/ui"))},
		{"layout", "cmd/waybill imports test/lab: the product never imports the test module",
			one("cmd/waybill/a.go", imports("main", "test/lab")), one("test/scene/a.go", imports("scene", "test/lab"))},
		{"layout", "pkg/backend/store imports pkg/testing/checkplaces: only tests import test support",
			one("pkg/backend/store/a.go", imports("store", "pkg/testing/checkplaces")), one("pkg/backend/store/a_test.go", imports("store", "pkg/testing/checkplaces"))},
		{"layout", "cmd/waybill imports pkg/testing/bounds: only tests import test support",
			one("cmd/waybill/a.go", imports("main", "pkg/testing/bounds")), one("pkg/testing/rawarchive/a.go", imports("rawarchive", "pkg/testing/bounds"))},
		{"layout", "cmd/k8s-verify-release imports pkg/backend/store/cloud: only cmd/waybill may",
			one("cmd/k8s-verify-release/a.go", imports("main", "pkg/backend/store/cloud")), one("cmd/waybill/a.go", imports("main", "pkg/backend/store/cloud"))},
		{"layout", "cmd/k8s-verify-release imports pkg/judge/policy/cel: only cmd/waybill may",
			one("cmd/k8s-verify-release/a.go", imports("main", "pkg/judge/policy/cel")), one("cmd/k8s-verify-release/a.go", imports("main", "pkg/judge/policy"))},
		{"pure folders", "pkg/judge/policy/a.go imports net/http: pkg/judge/policy may not see the world",
			one("pkg/judge/policy/a.go", `package policy; import "net/http"`), one("pkg/backend/registry/a.go", `package registry; import "net/http"`)},
		{"pure folders", "attestations/release-manifest/v1/a.go imports os: attestations/release-manifest/v1 may not see the world",
			one("attestations/release-manifest/v1/a.go", `package v1; import "os"`), one("attestations/release-manifest/v1/a.go", `package v1; import "io/fs"`)},
		{"pure folders", "pkg/value/digest/a.go imports log/slog: pkg/value/digest may not see the world",
			one("pkg/value/digest/a.go", `package digest; import "log/slog"`), one("pkg/value/digest/a_test.go", `package digest; import "log/slog"`)},
		{"pure folders", "pkg/judge/trust/a.go imports context: pkg/judge/trust may not see the world (nothing here waits)",
			one("pkg/judge/trust/a.go", `package trust; import "context"`), one("pkg/judge/intotolayout/a.go", `package intotolayout; import "context"`)},
		{"pure folders", "pkg/serve/caller/a.go imports context: pkg/serve/caller may not see the world",
			one("pkg/serve/caller/a.go", `package caller; import "context"`), one("pkg/serve/a.go", `package serve; import "context"`)},
		{"pure folders", `pkg/backend/store/a.go imports "time" with a dot`,
			one("pkg/backend/store/a.go", `package store; import . "time"`), one("pkg/backend/store/a.go", `package store; import _ "time"`)},
	}
}

func symbolSeeds() []seed {
	verify := func(imports, text string) map[string]string {
		return one("pkg/judge/verify/a.go", fmt.Sprintf("package verify\nimport %s\n%s", imports, text))
	}
	const sigstore = `"github.com/sigstore/sigstore-go/pkg/verify"`
	const root = `"github.com/sigstore/sigstore-go/pkg/root"`
	return []seed{
		{"forbidden symbols", "pkg/judge/verify/a.go:3 uses time.Now: time is an argument",
			verify(`"time"`, "func f() any { return time.Now() }"), verify(`"time"`, "func f(now time.Time) any { return now }")},
		{"forbidden symbols", "pkg/judge/verify/a.go:3 uses time.Since",
			verify(`clock "time"`, "func f(t clock.Time) any { return clock.Since(t) }"), verify(`clock "time"`, "func f(t, u clock.Time) any { return u.Sub(t) }")},
		{"forbidden symbols", "uses http.DefaultClient",
			verify(`"net/http"`, "func f() any { return http.DefaultClient }"), one("pkg/backend/transport/a.go", "package transport\nimport \"net/http\"\nfunc f() any { return http.DefaultClient }")},
		{"forbidden symbols", "uses verify.WithCurrentTime",
			verify(sigstore, "func f() any { return verify.WithCurrentTime() }"), verify(sigstore, "func f() any { return verify.WithIntegratedTimestamps(1) }")},
		{"forbidden symbols", "uses WithCurrentTime",
			verify(sigstore, "func f(o interface{ WithCurrentTime() any }) any { return o.WithCurrentTime() }"), verify(sigstore, "func f(o interface{ With() any }) any { return o.With() }")},
		{"forbidden symbols", "uses root.NewTrustedRootFromPath",
			verify(root, `func f() any { return root.NewTrustedRootFromPath }`), verify(root, `func f() any { return root.NewTrustedRootFromJSON }`)},
		{"forbidden symbols", "uses root.FetchTrustedRoot",
			verify(root, `func f() any { return root.FetchTrustedRoot }`), one("pkg/produce/sign/a.go", "package sign\nimport "+root+"\nfunc f() any { return root.FetchTrustedRoot }")},
		{"exported signatures", "exported Check shows verify.Verifier of github.com/sigstore/sigstore-go",
			verify(sigstore, "func Check(v *verify.Verifier) {}"), verify(sigstore, "func check(v *verify.Verifier) {}")},
		{"exported signatures", "exported Inner shows verify.Verifier",
			verify(sigstore, "type Inner struct{ V verify.Verifier }"), verify(sigstore, "type Inner struct{ v verify.Verifier }")},
		{"exported signatures", "exported Of shows verify.VerificationResult",
			verify(sigstore, "type T struct{}\nfunc (T) Of() []verify.VerificationResult { return nil }"), verify(sigstore, "type t struct{}\nfunc (t) Of() []verify.VerificationResult { return nil }")},
		{"exported signatures", "exported V shows verify.Verifier",
			verify(sigstore, "type V = verify.Verifier"), verify(sigstore, "type v = verify.Verifier")},
		{"exported signatures", "exported Entity shows verify.SignedEntity",
			verify(sigstore, "type Entity interface{ verify.SignedEntity }"), one("pkg/produce/sign/a.go", "package sign\nimport "+sigstore+"\ntype Entity interface{ verify.SignedEntity }")},
		{"exits", "pkg/produce/seal/a.go:1 calls os.Exit: only a command ends the process",
			one("pkg/produce/seal/a.go", `package seal; import "os"; func f() { os.Exit(1) }`), one("cmd/waybill/a.go", `package main; import "os"; func f() { os.Exit(1) }`)},
		{"exits", "test/lab/a.go:1 calls log.Fatalf",
			one("test/lab/a.go", `package lab; import "log"; func f() { log.Fatalf("") }`), one("test/lab/a.go", `package lab; import "log"; func f() { log.Printf("") }`)},
	}
}

func sizeSeeds() []seed {
	return []seed{
		{"sizes", "pkg/produce/seal/a.go has 501 lines: the wall is 500", one("pkg/produce/seal/a.go", lines(501)), one("pkg/produce/seal/a.go", lines(500))},
		{"sizes", "test/lab/a_test.go has 501 lines", one("test/lab/a_test.go", lines(501)), one("test/lab/a_test.go", lines(500))},
		{"sizes", "pkg/produce/seal/a.go:2: f has 81 lines: the wall is 80", one("pkg/produce/seal/a.go", body(81)), one("pkg/produce/seal/a.go", body(80))},
		{"sizes", "test/lab/a.go:2: f has 81 lines", one("test/lab/a.go", body(81)), one("test/lab/a_test.go", body(81))},
		{"sizes", "a function literal has 81 lines",
			one("pkg/produce/seal/a.go", "package seal\nvar f = []func(){func() {"+strings.Repeat("\n", 80)+"}}"),
			one("pkg/produce/seal/a.go", "package seal\nvar f = []func(){func() {"+strings.Repeat("\n", 79)+"}}")},
		{"signatures", "takes 6 parameters: the wall is 5",
			one("pkg/produce/seal/a.go", "package seal\nfunc f(a, b, c int, d, e, g string) {}"), one("pkg/produce/seal/a.go", "package seal\nfunc (r T) f(a, b, c int, d, e string) {}")},
		{"signatures", "takes two bools in a row", one("pkg/produce/seal/a.go", "package seal\nfunc f(a, b bool) {}"), one("pkg/produce/seal/a.go", "package seal\nfunc f(a bool, n int, b bool) {}")},
		{"signatures", "pkg/produce/seal/a.go:2 takes two bools in a row",
			one("pkg/produce/seal/a.go", "package seal\ntype I interface{ f(a bool, b bool) }"), one("pkg/produce/seal/a.go", "package seal\ntype I interface{ f(a bool) bool }")},
		{"shapes", "interface I has 5 methods: the wall is 4",
			one("pkg/produce/seal/a.go", "package seal\ntype I interface { a(); b(); c(); d(); e() }"), one("pkg/produce/seal/a.go", "package seal\ntype I interface { a(); b(); c(); d() }")},
		{"shapes", "SealOptions has 9 fields: the wall is 8",
			one("pkg/produce/seal/a.go", "package seal\ntype SealOptions struct { a, b, c, d, e, f, g, h, i int }"), one("pkg/produce/seal/a.go", "package seal\ntype SealOptions struct { a, b, c, d, e, f, g, h int }")},
		{"shapes", "Config has 9 fields",
			one("test/lab/a.go", "package lab\ntype Config struct { a, b, c, d, e, f, g, h, i int }"), one("test/lab/a.go", "package lab\ntype Page struct { a, b, c, d, e, f, g, h, i int }")},
		{"package names", "pkg/util is called util: a package is one noun and one promise", one("pkg/util/a.go", "package util"), one("pkg/produce/seal/a.go", "package seal")},
		{"package names", "pkg/produce/seal is called helpers", one("pkg/produce/seal/a.go", "package helpers"), one("pkg/produce/seal/helpers.go", "package seal")},
		{"share of cmd", "cmd has 21 of 100 lines: it may be 20% of the product",
			map[string]string{"cmd/waybill/a.go": lines(21), "pkg/produce/seal/a.go": lines(79)}, map[string]string{"cmd/waybill/a.go": lines(20), "pkg/produce/seal/a.go": lines(80), "cmd/waybill/a_test.go": lines(99)}},
	}
}

func variableSeeds() []seed {
	pkg := func(text string) map[string]string {
		return one("pkg/produce/seal/a.go", "package seal\nimport (\"errors\"; \"regexp\"; \"sync\")\n"+text)
	}
	lazy := func(expression string) map[string]string {
		return one("pkg/produce/seal/a.go", "package seal\nimport \""+modulePath+"/pkg/tool/pattern\"\nvar word = pattern.Lazy("+expression+")")
	}
	return []seed{
		{"package variables", "pkg/produce/seal/a.go:3: package variable word would panic when it is used", lazy("`a`+`(`"), lazy("`a`+`(b)`")},
		{"package variables", "pkg/produce/seal/a.go:3 has an init function", pkg("func init() {}"), pkg("type T int\nfunc (T) init() {}")},
		{"package variables", "test/lab/a.go:1 has an init function", one("test/lab/a.go", "package lab; func init() {}"), one("test/lab/a_test.go", "package lab; func init() {}")},
		{"package variables", "package variable mu is no sentinel", pkg("var mu sync.Mutex"), pkg("func f() { var mu sync.Mutex; mu.Lock() }")},
		{"package variables", "package variable cache is no sentinel", pkg("var cache = make(map[string]int)"), pkg("var table = map[string]int{}")},
		{"package variables", "package variable count is no sentinel", pkg("var count = 1"), pkg("const count = 1")},
		{"package variables", "package variable version is no sentinel", pkg(`var version string`), pkg("//go:embed version.txt\nvar version string")},
		{"package variables", "package variable pattern is no sentinel", pkg(`var pattern, _ = regexp.Compile("x")`), pkg(`var pattern = regexp.MustCompile("x")`)},
		{"package variables", "writes package variable table", pkg("var table = map[string]int{}\nfunc f() { table[``] = 1 }"), pkg("var table = map[string]int{}\nfunc f() { table := table; table = nil }")},
		{"package variables", "writes package variable ErrA", pkg("var ErrA = errors.New(``)\nfunc f() { ErrA = nil }"), pkg("var ErrA = errors.New(``)\nfunc f() error { return ErrA }")},
		{"package variables", "writes package variable table", pkg("var table = []int{1}\nfunc f() { table[0]++ }"), pkg("var table = []int{1}\nfunc f() int { return table[0] }")},
		{"package variables", "writes package variable table", pkg("var table = []int{1}\nfunc f() *int { return &table[0] }"), pkg("var table = []int{1}\nfunc f(table []int) *int { return &table[0] }")},
		{"package variables", "writes package variable table", pkg("var table = map[int]int{}\nfunc f() { delete(table, 1) }"), pkg("var table = map[int]int{}\nfunc f() { delete(map[int]int{}, 1) }")},
		{"package variables", "pkg/produce/seal/b.go:1 writes package variable table",
			map[string]string{"pkg/produce/seal/a.go": "package seal\nvar table = []int{}", "pkg/produce/seal/b.go": "package seal; func f() { table = nil }"},
			map[string]string{"pkg/produce/seal/a.go": "package seal\nvar table = []int{}", "pkg/gate/b.go": "package gate; func f() { table = nil }"}},
		{"package variables", "pkg/gate/a.go:3 writes package variable Codes",
			one("pkg/gate/a.go", "package gate\nimport \""+modulePath+"/pkg/value/verdict\"\nfunc f() { verdict.Codes[``] = 1 }"),
			one("pkg/gate/a.go", "package gate\nimport \""+modulePath+"/pkg/value/verdict\"\nfunc f() { _ = verdict.Codes[``] }")},
	}
}

func documentSeeds() []seed {
	pkg := func(text string) map[string]string {
		return one("pkg/produce/seal/a.go", "// Package seal.\npackage seal\n"+text)
	}
	return []seed{
		{"documentation", "pkg/produce/seal has no package comment", one("pkg/produce/seal/a.go", "package seal"), pkg("")},
		{"documentation", "exported F has no comment: say what it promises", pkg("func F() {}"), pkg("// F is.\nfunc F() {}")},
		{"documentation", "exported M has no comment", pkg("type t struct{}\n// T is.\ntype T struct{}\nfunc (*T) M() {}"), pkg("type t struct{}\nfunc (*t) M() {}")},
		{"documentation", "exported T has no comment", pkg("type T int"), pkg("// T is.\ntype T int")},
		{"documentation", "exported U has no comment", pkg("// Both.\ntype (\n// T is.\nT int\nU int\n)"), pkg("type (\n// T is.\nT int\nu int\n)")},
		{"documentation", "exported C has no comment", pkg("const (\nC = 1\n)"), pkg("// The numbers.\nconst (\nC = 1\nD = 2\n)")},
		{"documentation", "exported ErrA has no comment", pkg("var ErrA = error(nil)"), pkg("var (\nErrA = error(nil) // is\n)")},
		{"documentation", "test/lab/a.go:3: exported F has no comment", one("test/lab/a.go", "// Package lab.\npackage lab\nfunc F() {}"), one("test/lab/a.go", "// Package lab.\npackage lab\nfunc f() {}")},
		{"machine paths", "README.md:2 names /" + "work/: the repository knows no machine",
			one("README.md", "# W\ncd /"+"work/main"), one("README.md", "# W\ncd ./"+"work/main")},
		{"machine paths", "pkg/produce/seal/a.txt:1 names /" + "root/", one("pkg/produce/seal/a.txt", "(/"+"root/x)"), one("pkg/produce/seal/a.txt", "sigstore-go/pkg/"+"root/x")},
		{"machine paths", "Makefile:1 names proxy." + "golang.org", one("Makefile", "GOPROXY=https://proxy."+"golang.org"), one("Makefile", "GOTOOLCHAIN=local")},
	}
}

func moduleSeeds() []seed {
	mods := func(product, tests string) map[string]string {
		return map[string]string{"go.mod": "module m\nrequire (\n\t" + product + "\n)\n", "test/go.mod": "module m/test\n\nrequire " + tests + "\n"}
	}
	reasons := func(rows ...string) map[string]string {
		return map[string]string{"go.mod": "require a.b/c v1.0.0\nrequire (\n\td.e/f v1.0.0 // indirect\n)\n", "CONTRIBUTING.md": strings.Join(rows, "\n")}
	}
	stood := func(extra string, without ...string) map[string]string {
		out := map[string]string{extra: "package seed"}
		for _, name := range ground {
			if slices.Contains([]string{".ci", "attestations", "cmd", "pkg", "test"}, name) {
				name += "/x"
			}
			if !slices.Contains(without, name) {
				out[name] = ""
			}
		}
		return out
	}
	return []seed{
		{"top level", "designs stands at the top level, which is fixed", stood("designs/a.md"), stood("pkg/a.md")},
		{"top level", "arch_test.go stands at the top level", stood("arch_test.go"), stood("test/arch/arch_test.go")},
		{"top level", "go.work stands at the top level", stood("go.work"), stood("policies/a.yaml")},
		{"top level", "SECURITY.md is missing at the top level", stood("pkg/a.md", "SECURITY.md"), stood("pkg/a.md")},
		{"versions", "a.b/c is v1.0.0 in go.mod and v1.1.0 in test/go.mod", mods("a.b/c v1.0.0", "a.b/c v1.1.0"), mods("a.b/c v1.0.0", "a.b/c v1.0.0")},
		{"versions", "a.b/c is v1.0.0 in go.mod and v1.1.0 in test/go.mod", mods("a.b/c v1.0.0", "a.b/c v1.1.0"), mods("a.b/c v1.0.0 // indirect", "a.b/c v1.1.0")},
		{"dependency reasons", "a.b/c is required without a reason", reasons(), reasons("| `a.b/c` | reads c |")},
		{"dependency reasons", "a.b/c is required without a reason", reasons("| `a.b/c` |  |"), reasons("| `a.b/c` | reads c |")},
		{"dependency reasons", "d.e/f has a reason in CONTRIBUTING.md but go.mod does not require it",
			reasons("| `a.b/c` | reads c |", "| `d.e/f` | reads f |"), reasons("| `a.b/c` | reads c |")},
	}
}

func TestArchVerifierRefusesSeeds(t *testing.T) {
	const from = modulePath + "/" + verifier
	graph := func(last string) map[string][]string {
		return map[string][]string{from: {modulePath + "/pkg/backend/store"}, modulePath + "/pkg/backend/store": {last}, last: {last + "/inner"}}
	}
	for _, h := range heavy {
		got := carries(graph(h+"/x"), from)
		if len(got) != 1 || !strings.Contains(got[0], "carries "+h+"/x (cmd/k8s-verify-release → pkg/backend/store → "+h+"/x)") {
			t.Errorf("carrying %s: refusals %q", h, got)
		}
	}
	for _, light := range []string{"cel.development/x", "github.com/google/go-containerregistry/pkg/name"} {
		if got := carries(graph(light), from); len(got) != 0 {
			t.Errorf("carrying %s: refusals %q, want none", light, got)
		}
	}
	if got := carries(map[string][]string{}, from); len(got) != 1 {
		t.Errorf("a graph of nothing: refusals %q, want one", got)
	}
}
