package plan_test

import (
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
