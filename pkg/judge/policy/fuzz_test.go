package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// full is the largest that is read.
const full = 256 << 10

// read holds a policy to what every one keeps, whatever was written.
func read(t *testing.T, raw []byte) {
	t.Helper()
	var p policy.Policy
	var err error
	bounds.Within(t, len(raw), func() { p, err = policy.Parse(raw, nil) })
	if err != nil {
		if f := verdict.FindingOf("", err); f.Code.Outcome() != verdict.Malformed || !p.Digest().IsZero() {
			t.Fatalf("refused as something else than malformed: %v", err)
		}
		return
	}
	if p.Digest() != digest.Of(digest.SHA256, raw) || p.Name() == "" {
		t.Fatal("a policy without its name or digest")
	}
	if len(p.Expected(policy.Release)) == 0 || p.Decide(nil, question()).Err() == nil {
		t.Fatal("a policy that asks nothing was loaded")
	}
	for _, role := range policy.Roles() {
		if p.CheckIdentity(identity.Identity{}, role, question().At) == nil {
			t.Fatal("nobody has a role")
		}
	}
	if _, err := p.Judge(verify.Evidence{}, policy.Ask{Whole: true}); err == nil {
		t.Fatal("no evidence was accepted")
	}
	bounds.Within(t, len(raw), func() { policy.Explain(p); policy.Lint(p); policy.Overriders(p) })
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(text(f)))
	f.Add([]byte(strings.Replace(text(f), "release@", "*@", 1)))
	for _, path := range shippedFiles(f, "*.yaml") {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(read)
}

func shippedFiles(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "policies", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no %s is shipped: %v", pattern, err)
	}
	return paths
}

// rehearse holds cases to what every rehearsal keeps.
func rehearse(t *testing.T, p policy.Policy, archive []byte) {
	t.Helper()
	bounds.Within(t, len(archive), func() {
		report, err := policy.Rehearse(p, archive)
		if err != nil {
			if code := verdict.FindingOf("", err).Code; code.Outcome() != verdict.Malformed {
				t.Fatalf("refused as %s: %v", code, err)
			}
			return
		}
		if len(report.Cases) < 2 || report.Cases[0].Want[0] == "accepted" {
			t.Fatalf("a rehearsal of %d cases, the first of which wants %q", len(report.Cases), report.Cases[0].Want)
		}
	})
}

func FuzzRehearse(f *testing.F) {
	p, err := policy.Parse([]byte(text(f)), nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range shippedFiles(f, "*.txtar") {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte("-- a --\nwant: [UNSIGNED]\nlike: b\nset: {ask.at: x}\n-- b --\nwant: [accepted]\nask: {at: \"2026-01-01T00:00:00Z\"}\n"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		if len(archive) > full {
			t.Skip("larger than what is read")
		}
		rehearse(t, p, archive)
	})
}

// TestBounds: a policy or a file of cases that is full of something costs no
// more than any other.
func TestBounds(t *testing.T) {
	fill := func(old, item string) func(string) string {
		return func(text string) string {
			n := (full - len(text) - 200) / (len(item) + 8)
			var list strings.Builder
			for i := range n {
				list.WriteString(strings.ReplaceAll(item, "#", fmt.Sprintf("%05d", i)) + ", ")
			}
			return strings.Replace(text, old, strings.ReplaceAll(old, "ITEMS", "")+list.String(), 1)
		}
	}
	const build = "plan: require\nbuild: {types: [x], parameters: [{name: x, any: true}]}\n"
	rows := map[string]func(string) string{
		"identities": fill("verifier:\n  - {", `issuer: "https://a.example.test", subject: r#@example.test, type: email}, {`),
		"types":      func(s string) string { return fill("types: [", "t#")(strings.Replace(s, "plan: require\n", build, 1)) },
		"parameters": func(s string) string {
			return fill("parameters: [", "{name: p#, any: true}")(strings.Replace(s, "plan: require\n", build, 1))
		},
		"choices": func(s string) string {
			return fill("oneOf: [", "c#")(strings.Replace(s, "plan: require\n", strings.Replace(build, "any: true", "oneOf: [x]", 1), 1))
		},
		"rows": func(s string) string {
			head, _, _ := strings.Cut(s, "require:\n")
			return fill("require: [", `{stages: [staging, release], classes: [binary]}`)(head + "require: [{stages: [staging]}]\n")
		},
	}
	for _, list := range []struct{ name, under, item string }{
		{"builders", "builders:\n", `- {id: b#, level: 1, signers: [{issuer: "https://a.example.test", subject: b#@example.test, type: email}]}`},
		{"signers", "  verifier:\n", `- {issuer: "https://a.example.test", subject: r#@example.test, type: email}`},
		{"patterns", "  verifier:\n", `- {issuer: "https://a.example.test", pattern: '(r#|[a-z]{5,9})@example\.test', type: email}`},
		{"large patterns", "  verifier:\n", `- {issuer: "https://a.example.test", pattern: 'r#(` + strings.Repeat("a{999}", 150) + `)@example\.test', type: email}`},
	} {
		rows[list.name] = func(s string) string {
			n := (full - len(s) - 200) / (len(list.item) + 12)
			var lines strings.Builder
			for i := range n {
				lines.WriteString(strings.Repeat(" ", len(list.under)-len(strings.TrimSpace(list.under))-1) + strings.ReplaceAll(list.item, "#", fmt.Sprintf("%05d", i)) + "\n")
			}
			return strings.Replace(s, list.under, list.under+lines.String(), 1)
		}
	}
	for name, change := range rows {
		t.Run(name, func(t *testing.T) {
			changed := change(text(t))
			if changed == text(t) {
				t.Fatal("nothing was changed")
			}
			if len(changed) < full/2 || len(changed) > full {
				t.Fatalf("%d bytes, want about %d", len(changed), full)
			}
			read(t, []byte(changed))
		})
	}
	p, err := policy.Parse([]byte(text(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	accepted := "-- b --\nwant: [accepted]\nask: {at: \"2026-01-01T00:00:00Z\", text: " + strings.Repeat("x", 100_000) + "}\n"
	t.Run("cases like a large one", func(t *testing.T) {
		for _, n := range []int{4, 900} { // as many as are read, and as many as there is room for
			var many strings.Builder
			for i := range n {
				fmt.Fprintf(&many, "-- a%d --\nwant: [UNSIGNED]\nlike: b\nset: {ask.class: binary}\n", i)
			}
			rehearse(t, p, []byte(many.String()+accepted))
		}
	})
	t.Run("cases", func(t *testing.T) {
		var many strings.Builder
		for i := range full / 70 {
			fmt.Fprintf(&many, "-- a%d --\nwant: [UNSIGNED]\nlike: b\nset: {ask.at: x}\n", i)
		}
		rehearse(t, p, []byte(many.String()))
	})
}
