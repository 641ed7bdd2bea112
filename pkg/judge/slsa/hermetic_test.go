package slsa

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
)

// A step of our build type says itself whether it was hermetic, and a builder
// whose steps usually are is not believed against that.
func TestOurStepsSayWhetherTheyWereHermetic(t *testing.T) {
	rows := []struct {
		name, buildType, inside string
		assessed                bool
		hermetic, dependencies  State
	}{
		{"hermetic", provenance.BuildType, `{"isolation":"isolated","hermetic":true}`, false, Met, Met},
		{"not hermetic", provenance.BuildType, `{"isolation":"isolated","hermetic":false}`, true, NotMet, Met},
		{"not hermetic, by a builder that nobody assessed", provenance.BuildType, `{"isolation":"isolated","hermetic":false}`, false, NotMet, NotShown},
		{"hermetic and not isolated", provenance.BuildType, `{"isolation":"unisolated","hermetic":true}`, false, NotMet, NotShown},
		{"another build type that says so", "https://example.test/type", `{"hermetic":true}`, false, NotShown, NotShown},
	}
	tool := `,"resolvedDependencies":[{"name":"tool go","digest":{"sha256":"` + strings.Repeat("a", 64) + `"}}]`
	for _, r := range rows {
		pair := Pair{Signer: only(t, "builder"), BuilderID: builderID, Level: 3, Hermetic: r.assessed, Complete: r.assessed}
		trust, err := NewTrust([]Pair{pair}, nil)
		if err != nil {
			t.Fatal(err)
		}
		predicate := `{"buildDefinition":{"buildType":"` + r.buildType + `","externalParameters":{"step":"x"},"internalParameters":` + r.inside + tool + `},"runDetails":{"builder":{"id":"` + builderID + `"}}}`
		q := question{provenance: witness{who: who("builder"), statement: says(t, provenance.PredicateType, theArtifact(), predicate)}}
		q.Name, q.Bytes = "bin/lantern", artifact()
		got, err := trust.judge(q)
		if err != nil {
			t.Fatal(err)
		}
		if a := got.answer(V01, "build.hermetic"); a.State != r.hermetic {
			t.Errorf("%s: build.hermetic is %s: %s", r.name, a.State, a.Why)
		}
		if a := got.answer(V01, "provenance.dependencies"); a.State != r.dependencies {
			t.Errorf("%s: provenance.dependencies is %s: %s", r.name, a.State, a.Why)
		}
	}
}
