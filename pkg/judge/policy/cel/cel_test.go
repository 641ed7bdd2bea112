package cel_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/policy/cel"
)

const (
	kindProvenance = "https://slsa.dev/provenance/v1"
	builderID      = "https://builds.example/l3"
	source         = "https://github.com/example/project"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// view is an artifact with provenance, and a signature of the release
// identity.
func view() policy.View {
	return policy.View{
		Stage: "release", Version: "v1.10.0", Time: now,
		Artifact: policy.ArtifactView{Name: "bin/linux/amd64/tool", Class: "binary", SHA256: strings.Repeat("ab", 32), Commit: "c0ffee"},
		Evidence: []policy.EvidenceView{
			{
				Kind: kindProvenance, Role: "builder", Issuer: "https://issuer.example", Subject: "https://builds.example/builder", Signed: now.Add(-time.Hour),
				Claims: map[string]string{"runnerEnvironment": "hosted"},
				Provenance: policy.ProvenanceView{
					Builder: builderID, BuildType: "https://builds.example/type/v1", Repository: source, Ref: "refs/tags/v1.10.0",
					Commit: "c0ffee", Invocation: "https://builds.example/run/7", Level: 3,
					Parameters: map[string]string{"config.path": "release.yaml", "jobs": "4"},
					Dependencies: []policy.DependencyView{
						{Name: "go", URI: "pkg:generic/go@1.26.0", SHA256: strings.Repeat("cd", 32)},
						{Name: "base", URI: "oci://base", SHA256: strings.Repeat("ef", 32)},
					},
				},
			},
			{Kind: "blob", Role: "release", Issuer: "https://issuer.example", Subject: "release@example.com", Signed: now.Add(-time.Minute)},
		},
	}
}

func compiler(t testing.TB) cel.Compiler {
	t.Helper()
	c, err := cel.New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestHolds asks rules that are right, and the same rules of something else.
func TestHolds(t *testing.T) {
	c := compiler(t)
	builder := func(v *policy.View) *policy.EvidenceView { return &v.Evidence[0] }
	for _, row := range []struct {
		rule   string
		refuse func(*policy.View)
	}{
		{`stage == "release"`, func(v *policy.View) { v.Stage = "staging" }},
		{`version.startsWith("v1.")`, func(v *policy.View) { v.Version = "v2.0.0" }},
		{`artifact.name.endsWith("/tool")`, func(v *policy.View) { v.Artifact.Name = "tool.exe" }},
		{`artifact.class in ["binary", "archive"]`, func(v *policy.View) { v.Artifact.Class = "image" }},
		{`size(artifact.sha256) == 64`, func(v *policy.View) { v.Artifact.SHA256 = "" }},
		{`has(artifact.commit)`, func(v *policy.View) { v.Artifact.Commit = "" }},
		{`evidence.exists(e, e.kind == "` + kindProvenance + `" && e.provenance.level >= 3)`, func(v *policy.View) { builder(v).Provenance.Level = 2 }},
		{`evidence.exists_one(e, e.role == "release")`, func(v *policy.View) { builder(v).Role = "release" }},
		{`evidence.all(e, e.issuer == "https://issuer.example")`, func(v *policy.View) { v.Evidence[1].Issuer = "https://other.example" }},
		{`evidence.all(e, e.issuer == "https://issuer.example")`, func(v *policy.View) { v.Evidence = nil }},
		{`!evidence.all(e, e.issuer == "https://other.example")`, func(v *policy.View) { v.Evidence = nil }},
		{`evidence.filter(e, e.role in ["builder", "release"]).size() >= 2`, func(v *policy.View) { v.Evidence = v.Evidence[:1] }},
		{`evidence.all(e, time - e.signed < duration("24h"))`, func(v *policy.View) { v.Time = now.Add(48 * time.Hour) }},
		{`time < timestamp("2027-01-01T00:00:00Z")`, func(v *policy.View) { v.Time = now.AddDate(2, 0, 0) }},
		{`evidence.exists(e, e.claims["runnerEnvironment"] == "hosted")`, func(v *policy.View) { builder(v).Claims = nil }},
		{`evidence.exists(e, has(e.claims.runnerEnvironment) && e.claims.runnerEnvironment == "hosted")`, func(v *policy.View) { builder(v).Claims["runnerEnvironment"] = "own" }},
		{`evidence.exists(e, "runnerEnvironment" in e.claims)`, func(v *policy.View) { builder(v).Claims = nil }},
		{`evidence.exists(e, e.provenance.builder == "` + builderID + `" && e.provenance.buildType.startsWith("https://builds.example/type/"))`,
			func(v *policy.View) { builder(v).Provenance.BuildType = "" }},
		{`evidence.exists(e, e.provenance.ref == "refs/tags/" + version)`, func(v *policy.View) { builder(v).Provenance.Ref = "refs/heads/main" }},
		{`evidence.exists(e, e.provenance.repository == "` + source + `" && e.provenance.commit == artifact.commit)`, func(v *policy.View) { builder(v).Provenance.Commit = "bad" }},
		{`evidence.exists(e, e.provenance.invocation.startsWith("https://builds.example/run/"))`, func(v *policy.View) { builder(v).Provenance.Invocation = "" }},
		{`evidence.exists(e, e.provenance.parameters["config.path"] == "release.yaml")`, func(v *policy.View) { delete(builder(v).Provenance.Parameters, "config.path") }},
		{`evidence.exists(e, int(e.provenance.parameters["jobs"]) <= 8)`, func(v *policy.View) { builder(v).Provenance.Parameters["jobs"] = "9" }},
		{`evidence.exists(e, e.provenance.dependencies.exists(d, d.name == "go" && d.uri == "pkg:generic/go@1.26.0"))`, func(v *policy.View) { builder(v).Provenance.Dependencies[0].URI = "pkg:generic/go@1.25.0" }},
		{`evidence.exists(e, e.provenance.dependencies.all(d, size(d.sha256) == 64))`, func(v *policy.View) { builder(v).Provenance.Dependencies[1].SHA256 = "" }},
		{`evidence.exists(e, e.provenance.dependencies.all(d, size(d.sha256) == 64))`, func(v *policy.View) { builder(v).Provenance.Dependencies = nil }},
		{`artifact.name == "bin/linux/amd64/tool"` + "\n\t" + `? evidence.exists(e, e.role == "builder") : stage == "staging"`, func(v *policy.View) { builder(v).Role = "" }},
		{`evidence.exists(e, e.subject == "release@example.com")`, func(v *policy.View) { v.Evidence[1].Subject = "r\u0435lease@example.com" }},
	} {
		t.Run(row.rule, func(t *testing.T) {
			rule, err := c.Compile(row.rule)
			if err != nil {
				t.Fatal(err)
			}
			asked := view()
			if holds, err := rule.Holds(asked); err != nil || !holds {
				t.Errorf("of what it means: %v, %v; want true", holds, err)
			}
			row.refuse(&asked)
			if holds, _ := rule.Holds(asked); holds {
				t.Error("of something else: true; want false")
			}
		})
	}
}

// TestHoldsErrors says why a rule could not be answered; that is a no.
func TestHoldsErrors(t *testing.T) {
	c := compiler(t)
	for _, row := range []struct {
		rule, want string
		change     func(*policy.View)
	}{
		{`evidence.all(e, e.role == "builder")`, "all(…) over an empty list proves nothing", func(v *policy.View) { v.Evidence = nil }},
		{`!evidence.exists(e, e.claims["runnerEnvironment"] == "own")`, "no such key: runnerEnvironment", func(v *policy.View) { v.Evidence[0].Claims = nil }},
		{`!evidence.exists(e, int(e.subject) == 5)`, "type conversion error", func(*policy.View) {}},
		{`size(evidence) + 9223372036854775807 > 5`, "integer overflow", func(*policy.View) {}},
		{`duration("200000h") + (time - timestamp("1800-01-01T00:00:00Z")) > duration("1h")`, "overflow", func(v *policy.View) { v.Time = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{`stage == "release"`, "the time of verification is not set", func(v *policy.View) { v.Time = time.Time{} }},
		{`evidence.exists(e, e.signed < timestamp("2020-01-01T00:00:00Z"))`, `evidence 1, of kind "blob", has no time`, func(v *policy.View) { v.Evidence[1].Signed = time.Time{} }},
	} {
		t.Run(row.rule, func(t *testing.T) {
			rule, err := c.Compile(row.rule)
			if err != nil {
				t.Fatal(err)
			}
			asked := view()
			row.change(&asked)
			holds, err := rule.Holds(asked)
			if holds || err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, %v; want an error with %q", holds, err, row.want)
			}
		})
	}
}

// TestUndatedEvidence counts where a rule does not ask when.
func TestUndatedEvidence(t *testing.T) {
	rule, err := compiler(t).Compile(`evidence.exists(e, e.role == "release")`)
	if err != nil {
		t.Fatal(err)
	}
	asked := view()
	asked.Evidence[1].Signed = time.Time{}
	if holds, err := rule.Holds(asked); err != nil || !holds {
		t.Errorf("%v, %v; want true", holds, err)
	}
}

func TestConcurrently(t *testing.T) {
	const text = `evidence.exists(e, e.provenance.dependencies.all(d, size(d.sha256) == 64))`
	c := compiler(t)
	rule, err := c.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	asked := view()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := c.Compile(text); err != nil {
				t.Error(err)
			}
			for range 100 {
				if holds, err := rule.Holds(asked); err != nil || !holds {
					t.Errorf("%v, %v; want true", holds, err)
				}
			}
		})
	}
	group.Wait()
}

func TestZeroCompilerReadsNothing(t *testing.T) {
	if made, err := (cel.Compiler{}).Compile(`stage == "release"`); err == nil || made != nil {
		t.Errorf("%v, %v; want an error", made, err)
	}
}

// TestCostIsBounded asks a rule that is cheap for a usual release about one
// that is not.
func TestCostIsBounded(t *testing.T) {
	rule, err := compiler(t).Compile(`evidence.exists(e, e.provenance.dependencies.exists(d, d.name == artifact.name))`)
	if err != nil {
		t.Fatal(err)
	}
	asked := view()
	asked.Evidence = slices.Repeat(asked.Evidence[:1], 100)
	asked.Evidence[0].Provenance.Dependencies = nil
	if holds, err := rule.Holds(asked); err != nil || holds {
		t.Errorf("of 100 pieces of evidence: %v, %v; want false", holds, err)
	}
	asked.Evidence[7].Provenance.Dependencies = slices.Repeat(view().Evidence[0].Provenance.Dependencies, 25_000)
	if holds, err := rule.Holds(asked); err != nil || holds {
		t.Errorf("of 50 000 dependencies: %v, %v; want false", holds, err)
	}
	for i := range asked.Evidence {
		asked.Evidence[i].Provenance.Dependencies = slices.Repeat(view().Evidence[0].Provenance.Dependencies, 25_000)
	}
	holds, err := rule.Holds(asked)
	if holds || err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Errorf("of 5 million dependencies: %v, %v; want the limit", holds, err)
	}
}

// at is where an error of Compile says that the fault is.
func at(t *testing.T, err error) (line, column int) {
	t.Helper()
	var fault *cel.Error
	if !errors.As(err, &fault) {
		t.Fatalf("%v is no cel.Error", err)
	}
	return fault.Line, fault.Column
}
