package provenance_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
)

func codes(c provenance.Claim) (list []string) {
	for _, n := range provenance.Lint(c) {
		list = append(list, n.Code)
	}
	return list
}

// Nothing is found in the build of the tests; each row changes one fact.
func TestLint(t *testing.T) {
	const hex = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	rows := []struct {
		name     string
		version  string
		old, new string
		want     []string
	}{
		{"no builder", provenance.PredicateTypeV01, builderID, "", []string{"LINT_BUILDER_EMPTY"}},
		{"a builder on a branch", provenance.PredicateTypeV01, builderID, "https://builder.example/hosted@refs/heads/main", []string{"LINT_BUILDER_MUTABLE"}},
		{"a builder at a commit", provenance.PredicateTypeV01, builderID, "https://builder.example/hosted@" + hex, nil},
		{"a builder at a tag", provenance.PredicateTypeV01, builderID, "https://builder.example/hosted@refs/tags/v2", nil},
		{"a workflow of the source", provenance.PredicateTypeV02, builderID, "https://example.test/lantern/.github/workflows/w.yml@refs/tags/v1", []string{"LINT_BUILDER_SELF"}},
		{"a workflow of a neighbour", provenance.PredicateTypeV02, builderID, "https://example.test/lantern2/.github/workflows/w.yml@refs/tags/v1", nil},
		{"no build type", provenance.PredicateTypeV02, buildType, "", []string{"LINT_BUILD_TYPE"}},
		{"complete with one material", provenance.PredicateTypeV01, toolchain(), "", []string{provenance.LintCompleteness, provenance.LintToolchain}},
		{"one dependency in version 1", provenance.PredicateType, toolchain(), "", []string{provenance.LintToolchain}},
		{"an environment that is complete", provenance.PredicateTypeV01, `"environment":false`, `"environment":true`, nil},
		{"an environment that is complete and not there", provenance.PredicateTypeV01, `,"environment":{"arch":"amd64"}},"metadata":{"buildInvocationId":"run-1","buildStartedOn":"2026-03-01T12:00:00Z","buildFinishedOn":"2026-03-01T13:01:00+01:00","completeness":{"arguments":true,"environment":false`, `},"metadata":{"buildInvocationId":"run-1","buildStartedOn":"2026-03-01T12:00:00Z","buildFinishedOn":"2026-03-01T13:01:00+01:00","completeness":{"arguments":true,"environment":true`, []string{provenance.LintCompleteness}},
		{"a dependency without digest", provenance.PredicateTypeV01, `,"digest":{"sha256":"` + strings.Repeat("a", 64) + `"}`, "", []string{provenance.LintDependency}},
		{"instructions in a material that is not there", provenance.PredicateTypeV01, `"definedInMaterial":0`, `"definedInMaterial":2`, []string{"LINT_DEFINED_IN"}},
		{"an entry point on a branch", provenance.PredicateTypeV02, "build.sh", "https://example.test/lantern/blob/main/build.sh", []string{provenance.LintEntryMutable}},
		{"an entry point at a commit", provenance.PredicateTypeV02, "build.sh", "https://example.test/lantern/blob/" + hex + "/build.sh", nil},
		{"an entry point in the source at a commit", provenance.PredicateTypeV02, "build.sh", "https://example.test/lantern@" + hex + "#build.sh", nil},
		{"an entry point in a neighbour at a commit", provenance.PredicateTypeV02, "build.sh", "https://example.test/lantern2@" + hex + "#build.sh", []string{provenance.LintEntryForeign}},
		{"an entry point elsewhere", provenance.PredicateTypeV02, "build.sh", "https://example.test/other/blob/" + hex + "/build.sh", []string{provenance.LintEntryForeign}},
		{"a source without commit", provenance.PredicateTypeV02, `"digest":{"sha1":"` + commit() + `"},"entryPoint"`, `"entryPoint"`, []string{"LINT_SOURCE_MUTABLE"}},
		{"a parameter with another commit", provenance.PredicateTypeV02, `{"race":true}`, `"v1.0.0+0ac956ff2bef9c"`, []string{"LINT_SOURCE_OTHER"}},
		{"a parameter with the commit", provenance.PredicateTypeV02, `{"race":true}`, `"v1.0.0-3-gccccccc"`, nil},
		{"a parameter with a date", provenance.PredicateTypeV02, `{"race":true}`, `"v1.0.0+20260301"`, nil},
		{"parameterless with parameters", provenance.PredicateTypeV01, `"arch":"amd64"`, `"parameterless":true`, []string{"LINT_PARAMETERLESS"}},
		{"reproducible", provenance.PredicateTypeV01, `"reproducible":false`, `"reproducible":true`, nil},
		{"reproducible without materials", provenance.PredicateTypeV01, `"materials":true},"reproducible":false`, `"materials":false},"reproducible":true`, []string{provenance.LintReproducible}},
		{"no invocation", provenance.PredicateType, `run-1`, ``, []string{provenance.LintInvocation}},
		{"no start", provenance.PredicateType, `2026-03-01T12:00:00Z`, ``, []string{provenance.LintTimeMissing}},
		{"an end before the start", provenance.PredicateType, `2026-03-01T13:01:00+01:00`, `2026-03-01T11:59:59Z`, []string{provenance.LintTimeReversed}},
	}
	for version, predicate := range versions() {
		if got := codes(claim(t, version, predicate)); len(got) != 0 {
			t.Errorf("%s: %v in what nothing contradicts", version, got)
		}
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			before := versions()[r.version]
			changed := strings.Replace(before, r.old, r.new, 1)
			if changed == before {
				t.Fatalf("%q is not in %s", r.old, before)
			}
			if got := codes(claim(t, r.version, changed)); !slices.Equal(got, r.want) {
				t.Errorf("%v, want %v", got, r.want)
			}
		})
	}
}

func toolchain() string {
	_, second, _ := strings.Cut(materials(), "}},")
	return "," + strings.TrimSuffix(second, "]")
}

func TestLintNeedsASource(t *testing.T) {
	bare := claim(t, provenance.PredicateType, `{}`)
	for _, code := range []string{"LINT_BUILDER_EMPTY", "LINT_BUILD_TYPE", provenance.LintToolchain, "LINT_SOURCE_MISSING", provenance.LintInvocation, provenance.LintTimeMissing} {
		if !slices.Contains(codes(bare), code) {
			t.Errorf("%s is not among %v", code, codes(bare))
		}
	}
}

func TestLintSubjects(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	rows := []struct {
		name     string
		subjects string
		want     []string
	}{
		{"two files", `{"name":"a","digest":{"sha256":"` + a + `"}},{"name":"b","digest":{"sha256":"` + b + `"}}`, nil},
		{"two files of the same bytes", `{"name":"a","digest":{"sha256":"` + a + `"}},{"name":"b","digest":{"sha256":"` + a + `"}}`, []string{"LINT_SUBJECT_SHARED_BYTES"}},
		{"two files of one name", `{"name":"a","digest":{"sha256":"` + a + `"}},{"name":"a","digest":{"sha256":"` + b + `"}}`, []string{"LINT_SUBJECT_TWICE"}},
		{"a commit", `{"name":"a","digest":{"gitCommit":"` + commit() + `"}}`, []string{"LINT_SUBJECT_NO_SHA256"}},
		{"a file without a name", `{"digest":{"sha256":"` + a + `"}}`, []string{"LINT_SUBJECT_NAMELESS"}},
		{"a file with an address", `{"uri":"https://example.test/a","digest":{"sha256":"` + a + `"}}`, nil},
		{"a file of staging", `{"name":"gs://bucket/stage/v1/a","digest":{"sha256":"` + a + `"}}`, []string{"LINT_SUBJECT_STAGING"}},
		{"a file of a release", `{"name":"gs://bucket/release/v1/a","digest":{"sha256":"` + a + `"}}`, nil},
	}
	for _, r := range rows {
		s, err := intoto.ParseOpen([]byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[` + r.subjects + `],"predicateType":"` + provenance.PredicateType + `","predicate":` + inV1() + `}`))
		if err != nil {
			t.Fatal(err)
		}
		c, err := provenance.Read(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := codes(c); !slices.Equal(got, r.want) {
			t.Errorf("%s: %v, want %v", r.name, got, r.want)
		}
	}
}
