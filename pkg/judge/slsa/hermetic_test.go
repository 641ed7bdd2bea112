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

// Level 4 of Build is reached by a builder that the policy trusts for it, with
// the means by which its list is complete, and only by steps that used nothing
// besides the list.
func TestBuildLevel4(t *testing.T) {
	tool := `{"name":"tool go","digest":{"sha256":"` + strings.Repeat("a", 64) + `"}}`
	rows := []struct {
		name, inside, list string
		trusted, level     int
		limit              string
	}{
		{"hermetic, of a builder that is trusted for it", `{"isolation":"isolated","hermetic":true}`, tool, 4, 4, ""},
		{"of a builder that is trusted for less", `{"isolation":"isolated","hermetic":true}`, tool, 3, 3, "build.dependencies (not met): the builder is trusted up to Build level 3"},
		{"a step with a network", `{"isolation":"isolated","hermetic":false}`, tool, 4, 3, "build.dependencies (not met): the builder reports that this step could use inputs"},
		{"a tool without a digest", `{"isolation":"isolated","hermetic":true}`, `{"name":"tool go","uri":"https://example.test/go"}`, 4, 3, "build.dependencies"},
		{"no toolchain in the list", `{"isolation":"isolated","hermetic":true}`, "", 4, 3, "build.dependencies (not met): the dependencies include no toolchain"},
		{"a step that was not isolated", `{"isolation":"unisolated","hermetic":true}`, tool, 4, 2, "build.isolated"},
	}
	for _, r := range rows {
		pair := Pair{Signer: only(t, "builder"), BuilderID: builderID, Level: r.trusted, Hermetic: true, Complete: true}
		if r.trusted == 4 {
			pair.Enforced = "its steps have no network, and see only what was fetched by digest"
		}
		trust, err := NewTrust([]Pair{pair}, nil)
		if err != nil {
			t.Fatal(err)
		}
		predicate := `{"buildDefinition":{"buildType":"` + provenance.BuildType + `","externalParameters":{"step":"x"},"internalParameters":` + r.inside + `,"resolvedDependencies":[` + r.list + `]},"runDetails":{"builder":{"id":"` + builderID + `"}}}`
		q := question{provenance: witness{who: who("builder"), statement: says(t, provenance.PredicateType, theArtifact(), predicate)}}
		q.Name, q.Bytes = "bin/lantern", artifact()
		got, err := trust.judge(q)
		if err != nil {
			t.Fatal(err)
		}
		if level, on := got.Level(Build), got.On(Build); level != r.level || on.Most != r.trusted || len(on.Requirements) != len(build())-4+r.trusted {
			t.Errorf("%s: level %d of %d with %d rows, want level %d of %d", r.name, level, on.Most, len(on.Requirements), r.level, r.trusted)
		}
		err = got.Meet(Demand{Build, 4})
		if r.limit == "" && err != nil || r.limit != "" && (err == nil || !strings.Contains(err.Error(), r.limit)) {
			t.Errorf("%s: build=4 gives %v, want %q", r.name, err, r.limit)
		}
	}
	for name, p := range map[string]Pair{
		"no means":               {Signer: only(t, "builder"), BuilderID: builderID, Level: 4, Complete: true},
		"a list that may be cut": {Signer: only(t, "builder"), BuilderID: builderID, Level: 4, Enforced: "by hand"},
		"a level that is none":   {Signer: only(t, "builder"), BuilderID: builderID, Level: 5, Complete: true, Enforced: "by hand"},
	} {
		if _, err := NewTrust([]Pair{p}, nil); err == nil {
			t.Errorf("%s: trusted", name)
		}
	}
}
