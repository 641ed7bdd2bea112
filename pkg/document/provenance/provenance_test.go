package provenance_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func commit() string { return strings.Repeat("c", 40) }

func subjects() []intoto.Subject {
	return []intoto.Subject{{Name: "bin/lantern", Digests: digest.SetOf([]byte("lantern"))}}
}

func tree() string { return strings.Repeat("d", 40) }

// compile is a predicate in which every field says something.
func compile() provenance.Predicate {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	config := digest.SetOf([]byte("config"))
	return provenance.Predicate{
		BuildDefinition: provenance.BuildDefinition{
			BuildType: provenance.BuildType,
			ExternalParameters: provenance.ExternalParameters{
				Config:  provenance.Config{Repository: "https://example.test/lantern", Ref: "refs/tags/v0.1.0", Path: "release.yaml", SHA256: config.SHA256.Hex()},
				Version: "v0.1.0", Step: "compile", Each: map[string]string{"platform": "linux/amd64"},
			},
			InternalParameters: provenance.InternalParameters{Isolation: "isolated", Command: []string{"go", "build"}, Env: []string{"GOOS=linux"}},
			ResolvedDependencies: []provenance.Resource{
				provenance.Commit("https://example.test/lantern", "refs/tags/v0.1.0", commit(), tree()),
				provenance.ReleaseCommit("https://example.test/lantern", "refs/tags/v0.1.0", strings.Repeat("e", 40), tree()),
				provenance.Tag("https://example.test/lantern", "refs/tags/v0.1.0", strings.Repeat("f", 40)),
				provenance.File("release.yaml", config),
			},
		},
		RunDetails: provenance.RunDetails{
			Builder:    provenance.BuilderID{ID: provenance.BuilderIsolated, Version: map[string]string{"waybill": "v1"}},
			Metadata:   provenance.Metadata{InvocationID: "run-1", StartedOn: at, FinishedOn: at.Add(time.Second)},
			Byproducts: []provenance.Resource{provenance.File("log", config)},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	s, err := provenance.Encode(subjects(), compile())
	if err != nil {
		t.Fatal(err)
	}
	if s.PredicateType() != "https://slsa.dev/provenance/v1" {
		t.Errorf("predicate type %q", s.PredicateType())
	}
	got, err := provenance.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := (provenance.Provenance{Predicate: compile(), Subjects: subjects()}); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.SourceCommit() != commit() {
		t.Errorf("commit %q", got.SourceCommit())
	}
	// Where the ref names an empty release commit, the source is still the
	// commit that was built.
	claim, err := provenance.Read(s)
	if want := (provenance.Source{Repository: "git+https://example.test/lantern", Ref: "refs/tags/v0.1.0", Commit: commit()}); err != nil || claim.Source != want {
		t.Errorf("source %+v, %v, want %+v", claim.Source, err, want)
	}
}

// The older version says the same of who, what and from what, as its readers
// understand it: the commit as sha1, materials complete where nothing else
// could be used.
func TestEncodeV02(t *testing.T) {
	for _, hermetic := range []bool{true, false} {
		p := compile()
		p.BuildDefinition.InternalParameters.Hermetic = hermetic
		s, err := provenance.EncodeV02(subjects(), p)
		if err != nil {
			t.Fatal(err)
		}
		if s.Type() != "https://in-toto.io/Statement/v0.1" || s.PredicateType() != "https://slsa.dev/provenance/v0.2" || len(s.Subjects()) != 1 {
			t.Errorf("%s, %s, %d subjects", s.Type(), s.PredicateType(), len(s.Subjects()))
		}
		claim, err := provenance.Read(s)
		if err != nil {
			t.Fatal(err)
		}
		want := provenance.Source{Repository: "git+https://example.test/lantern", Ref: "refs/tags/v0.1.0", Commit: commit()}
		if claim.Source != want || claim.Builder.ID != provenance.BuilderIsolated || claim.BuildType != provenance.BuildType || claim.EntryPoint != "release.yaml" {
			t.Errorf("source %+v, builder %q, type %q, entry point %q", claim.Source, claim.Builder.ID, claim.BuildType, claim.EntryPoint)
		}
		if n := len(p.BuildDefinition.ResolvedDependencies); len(claim.Dependencies) != n || claim.Run.InvocationID != "run-1" {
			t.Errorf("%d dependencies of %d, run %q", len(claim.Dependencies), n, claim.Run.InvocationID)
		}
		if complete := claim.Completeness.Materials == provenance.SaidYes; complete != hermetic {
			t.Errorf("hermetic %t, and its materials are complete: %t", hermetic, complete)
		}
		if _, err := provenance.Parse(s); err == nil {
			t.Error("the strict reader took the older version for ours")
		}
	}
}

// parse reads the valid predicate with its text changed.
func parse(t *testing.T, predicateType, old, new string) (provenance.Provenance, error) {
	t.Helper()
	raw, err := json.Marshal(compile())
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(raw), old, new, 1)
	if changed == string(raw) && old != new {
		t.Fatalf("%q is not in %s", old, raw)
	}
	s, err := intoto.New(predicateType, subjects(), json.RawMessage(changed))
	if err != nil {
		t.Fatal(err)
	}
	return provenance.Parse(s)
}

func TestParse(t *testing.T) {
	rows := []struct {
		name          string
		predicateType string
		old, new      string
		code          verdict.Code // empty when accepted
	}{
		{"as it is", provenance.PredicateType, "", "", ""},
		{"a step that is not repeated", provenance.PredicateType, `,"each":{"platform":"linux/amd64"}`, "", ""},
		{"another statement", "https://slsa.dev/provenance/v0.2", "", "", verdict.PredicateType},
		{"another build type", provenance.PredicateType, "build-step/v1", "build-step/v2", verdict.BuildType},
		{"a build type that only begins like ours", provenance.PredicateType, "build-step/v1", "build-step/v1#x", verdict.BuildType},
		{"no build type", provenance.PredicateType, provenance.BuildType, "", verdict.BuildType},
		{"another build type with parameters of its own", provenance.PredicateType, `build-step/v1","externalParameters":{`, `other/v1","externalParameters":{"x":1,`, verdict.BuildType},
		{"an unknown external parameter", provenance.PredicateType, `"externalParameters":{`, `"externalParameters":{"flags":"-race",`, verdict.StatementParse},
		{"an unknown parameter of the configuration", provenance.PredicateType, `"config":{`, `"config":{"overlay":"x",`, verdict.StatementParse},
		{"an unknown internal parameter", provenance.PredicateType, `"internalParameters":{`, `"internalParameters":{"secret":"x",`, verdict.StatementParse},
		{"an unknown field of the run", provenance.PredicateType, `"metadata":{`, `"metadata":{"mood":"x",`, verdict.StatementParse},
		{"a parameter in another case", provenance.PredicateType, `"version":"v0.1.0"`, `"Version":"v0.1.0"`, verdict.StatementParse},
		{"a time of no form", provenance.PredicateType, "2026-03-01T12:00:00Z", "noon", verdict.StatementParse},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p, err := parse(t, r.predicateType, r.old, r.new)
			if r.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			if f := verdict.FindingOf("", err); f.Code != r.code {
				t.Errorf("refused as %s: %v, want %s", f.Code, err, r.code)
			}
			if !reflect.DeepEqual(p, provenance.Provenance{}) {
				t.Error("a refusal came with provenance")
			}
		})
	}
}

func TestSourceCommit(t *testing.T) {
	none, err := parse(t, provenance.PredicateType, "gitCommit", "sha1")
	if err != nil || none.SourceCommit() != "" {
		t.Errorf("no commit is named, got %q, %v", none.SourceCommit(), err)
	}
	for repository, uri := range map[string]string{
		"https://example.test/a":     "git+https://example.test/a@main",
		"git+https://example.test/a": "git+https://example.test/a@main",
	} {
		if got := provenance.Commit(repository, "main", commit(), tree()).URI; got != uri {
			t.Errorf("URI %q, want %q", got, uri)
		}
	}
}
