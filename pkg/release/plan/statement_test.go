package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// TestStatement: a statement for readers of in-toto is planned where it is
// named, for a release of steps and for one of another tool, and is about no
// one artifact.
func TestStatement(t *testing.T) {
	for name, text := range map[string]string{"steps": full, "another tool": dist} {
		t.Run(name, func(t *testing.T) {
			without, err := expand(t, text)
			if err != nil {
				t.Fatal(err)
			}
			with, err := expand(t, change(t, text, `{version}/", `, `{version}/", statement: "lantern-{version}.release.json", `))
			if err != nil {
				t.Fatal(err)
			}
			a, planned := with.Find("lantern-v0.1.0.release.json")
			if !planned || !a.IsStatement() || len(with.Artifacts) != len(without.Artifacts)+1 {
				t.Errorf("%+v of %d artifacts, %d without", a, len(with.Artifacts), len(without.Artifacts))
			}
			for _, other := range without.Artifacts {
				if other.IsStatement() {
					t.Errorf("%s is one", other.Name)
				}
			}
			signed, err := with.WithLegacy()
			if err != nil {
				t.Fatal(err)
			}
			if _, found := signed.Find(plan.SigName(strings.TrimSuffix(a.Name, ".sigstore.json"))); found {
				t.Error("it is signed in the legacy form")
			}
		})
	}
}

// TestAlsoFor: files for other readers are planned where they are asked for, and
// only where they can be made.
func TestAlsoFor(t *testing.T) {
	also := func(text, readers string) string {
		return change(t, text, `{version}/", `, `{version}/", alsoFor: [`+readers+`], statement: a.json, `)
	}
	p, err := expand(t, also(full, "packslip, scorecard"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range p.Statements() {
		names = append(names, a.Name)
	}
	if want := []string{"tool.intoto.jsonl", "packslip.sigstore.json", "a.json"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q: what lists the others is last", names, want)
	}
	if _, err := expand(t, also(dist, "packslip")); err != nil {
		t.Errorf("of another tool: %v", err)
	}
	for name, text := range map[string]string{
		"a reader that is unknown":           also(full, "cosign"),
		"no provenance is made":              also(dist, "scorecard"),
		"a statement in the packslip's name": change(t, full, `{version}/", `, `{version}/", statement: packslip.sigstore.json, `),
		"a repository without a host":        change(t, also(full, "packslip"), `"https://example.test/tool"`, `"git+file:///lantern"`),
	} {
		if _, err := expand(t, text); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
