package provenance_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	builderID = "https://builder.example/hosted@v1"
	buildType = "https://builder.example/types/script@v1"
)

// The same build in the words of each version.
func inV01() string {
	return `{"builder":{"id":"` + builderID + `"},"recipe":{"type":"` + buildType + `","definedInMaterial":0,"entryPoint":"build.sh","arguments":{"flags":{"race":true}},"environment":{"arch":"amd64"}},` + metadata("arguments") + `,"materials":` + materials() + `}`
}

func inV02() string {
	return `{"builder":{"id":"` + builderID + `"},"buildType":"` + buildType + `","invocation":{"configSource":{"uri":"git+https://example.test/lantern@refs/tags/v1","digest":{"sha1":"` + commit() + `"},"entryPoint":"build.sh"},"parameters":{"flags":{"race":true}},"environment":{"arch":"amd64"}},` + metadata("parameters") + `,"materials":` + materials() + `}`
}

func inV1() string {
	return `{"buildDefinition":{"buildType":"` + buildType + `","externalParameters":{"flags":{"race":true}},"internalParameters":{"environment":{"arch":"amd64"}},"resolvedDependencies":` + materials() + `},
"runDetails":{"builder":{"id":"` + builderID + `"},"metadata":{"invocationId":"run-1","startedOn":"2026-03-01T12:00:00Z","finishedOn":"2026-03-01T13:01:00+01:00"}}}`
}

func metadata(parameters string) string {
	return `"metadata":{"buildInvocationId":"run-1","buildStartedOn":"2026-03-01T12:00:00Z","buildFinishedOn":"2026-03-01T13:01:00+01:00","completeness":{"` + parameters + `":true,"environment":false,"materials":true},"reproducible":false}`
}

func materials() string {
	return `[{"uri":"git+https://example.test/lantern@refs/tags/v1","digest":{"sha1":"` + commit() + `"}},{"uri":"pkg:docker/golang@1.26","digest":{"sha256":"` + strings.Repeat("a", 64) + `"}}]`
}

// said is the statement of a predicate.
func said(t testing.TB, predicateType, predicate string) intoto.Statement {
	t.Helper()
	s, err := intoto.ParseOpen(fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v0.1","subject":[{"name":"bin/lantern","digest":{"sha256":"%s"}}],"predicateType":"%s","predicate":%s}`,
		strings.Repeat("b", 64), predicateType, predicate))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claim(t testing.TB, predicateType, predicate string) provenance.Claim {
	t.Helper()
	c, err := provenance.Read(said(t, predicateType, predicate))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// versions lists the same build three times.
func versions() map[string]string {
	return map[string]string{
		provenance.PredicateTypeV01: inV01(), provenance.PredicateTypeV02: inV02(), provenance.PredicateType: inV1(),
	}
}

func TestReadGivesOneShape(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for version, predicate := range versions() {
		t.Run(version, func(t *testing.T) {
			c := claim(t, version, predicate)
			if c.PredicateType != version || c.Builder.ID != builderID || c.BuildType != buildType || c.IsZero() {
				t.Errorf("read as %+v", c)
			}
			if want := (provenance.Source{Repository: "git+https://example.test/lantern", Ref: "refs/tags/v1", Commit: commit()}); c.Source != want {
				t.Errorf("source %+v", c.Source)
			}
			if want := (provenance.Run{InvocationID: "run-1", Started: at, Finished: at.Add(time.Minute)}); c.Run != want {
				t.Errorf("run %+v", c.Run)
			}
			if value, ok := c.Parameter("flags.race"); !ok || string(value) != "true" || len(c.Parameters) != 1 {
				t.Errorf("parameters %s", c.Parameters)
			}
			if value, ok := c.InternalParameter("environment.arch"); !ok || string(value) != `"amd64"` {
				t.Errorf("internal parameters %s", c.Internal)
			}
			if len(c.Dependencies) != 2 || c.Dependencies[1].Strong().SHA256.IsZero() {
				t.Errorf("dependencies %v", c.Dependencies)
			}
			said := provenance.Completeness{Parameters: provenance.SaidYes, Environment: provenance.SaidNo, Materials: provenance.SaidYes}
			reproducible, entry := provenance.SaidNo, "build.sh"
			if version == provenance.PredicateType {
				said, reproducible, entry = provenance.Completeness{}, provenance.NotSaid, ""
			}
			if c.Completeness != said || c.Reproducible != reproducible || c.EntryPoint != entry {
				t.Errorf("completeness %v, reproducible %v, entry point %q", c.Completeness, c.Reproducible, c.EntryPoint)
			}
		})
	}
}

// TestDefinedIn: Google Cloud Build writes the number as protobuf does, as text.
func TestDefinedIn(t *testing.T) {
	for text, want := range map[string]int{`0`: 0, `1`: 1, `-1`: -1, `"-1"`: -1, `"1"`: 1, `null`: -1} {
		if c := claim(t, provenance.PredicateTypeV01, strings.Replace(inV01(), `"definedInMaterial":0`, `"definedInMaterial":`+text, 1)); c.DefinedIn != want {
			t.Errorf("%s is read as %d", text, c.DefinedIn)
		}
	}
	for _, text := range []string{`"x"`, `1.5`, `"1e0"`, `true`} {
		if _, err := provenance.Read(said(t, provenance.PredicateTypeV01, strings.Replace(inV01(), `"definedInMaterial":0`, `"definedInMaterial":`+text, 1))); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	rows := []struct {
		name     string
		version  string
		old, new string
		code     verdict.Code // empty when accepted
	}{
		{"an unknown field", provenance.PredicateTypeV02, `"buildType":`, `"x":1,"buildType":`, ""},
		{"another spelling of the invocation", provenance.PredicateTypeV02, `"buildInvocationId"`, `"buildInvocationID"`, ""},
		{"no times", provenance.PredicateTypeV02, `"buildStartedOn":"2026-03-01T12:00:00Z",`, ``, ""},
		{"both spellings of the invocation", provenance.PredicateTypeV02, `"buildInvocationId"`, `"buildInvocationID":"x","buildInvocationId"`, verdict.StatementParse},
		{"a field in another case", provenance.PredicateTypeV02, `"buildType":`, `"BuildType":"x","buildType":`, verdict.StatementParse},
		{"a builder that is text", provenance.PredicateTypeV01, `{"id":"` + builderID + `"}`, `"x"`, verdict.StatementParse},
		{"a builder id that is a number", provenance.PredicateType, `"id":"` + builderID + `"`, `"id":1`, verdict.StatementParse},
		{"a time of no form", provenance.PredicateType, "2026-03-01T12:00:00Z", "noon", verdict.StatementParse},
		{"a digest in upper case", provenance.PredicateType, strings.Repeat("a", 64), strings.Repeat("A", 64), verdict.StatementParse},
		{"a completeness that is text", provenance.PredicateTypeV01, `"arguments":true`, `"arguments":"true"`, verdict.StatementParse},
		{"materials that are no list", provenance.PredicateTypeV01, materials(), `{}`, verdict.StatementParse},
		{"too many materials", provenance.PredicateTypeV01, materials(), `[` + strings.Repeat(`{},`, provenance.MaxDependencies) + `{}]`, verdict.Limit},
		{"too many values", provenance.PredicateType, `"race":true`, `"race":[` + strings.Repeat(`1,`, provenance.MaxValues) + `1]`, verdict.Limit},
		{"too many parameters", provenance.PredicateType, `"flags":{"race":true}`, manyMembers(provenance.MaxParameters + 1), verdict.Limit},
		{"too many empty parameters in two objects", provenance.PredicateType, `"flags":{"race":true}`, emptyMembers(provenance.MaxParameters/2 + 1), verdict.Limit},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			before := versions()[r.version]
			changed := strings.Replace(before, r.old, r.new, 1)
			if changed == before {
				t.Fatalf("%q is not in the predicate", r.old)
			}
			c, err := provenance.Read(said(t, r.version, changed))
			switch {
			case r.code == "" && err != nil:
				t.Error(err)
			case r.code != "" && (err == nil || verdict.FindingOf("", err).Code != r.code || !c.IsZero()):
				t.Errorf("%v, want %s", err, r.code)
			}
		})
	}
	if _, err := provenance.Read(said(t, "https://slsa.dev/provenance/v2", inV1())); verdict.FindingOf("", err).Code != verdict.PredicateType {
		t.Errorf("another version: %v", err)
	}
	if _, err := provenance.Read(intoto.Statement{}); err == nil {
		t.Error("no statement was read")
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"p%d":1,`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// emptyMembers is two objects of n empty ones.
func emptyMembers(n int) string {
	half := strings.ReplaceAll(manyMembers(n), ":1", ":{}")
	return `"a":{` + half + `},"b":{` + half + `}`
}

func TestParametersHaveOneNameEach(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 12) + `1` + strings.Repeat(`}`, 12)
	rows := []struct{ external, want string }{
		{`{}`, ``},
		{`null`, ``},
		{`{"b":1,"a":"x"}`, `a="x" b=1`},
		{`{"a":{"b":1},"a.b":2}`, `"a.b"=2 a.b=1`},
		{`{"a":{},"b":[{"c":1}],"":null}`, `""=null a={} b=[{"c":1}]`},
		{`["x"]`, `arguments=["x"]`},
		{deep, strings.Repeat("a.", 7) + "a=" + strings.Repeat(`{"a":`, 4) + `1` + strings.Repeat(`}`, 4)},
	}
	for _, r := range rows {
		var got []string
		for _, p := range claim(t, provenance.PredicateType, `{"buildDefinition":{"externalParameters":`+r.external+`}}`).Parameters {
			got = append(got, p.Name+"="+string(p.Value))
		}
		if strings.Join(got, " ") != r.want {
			t.Errorf("%s: %s, want %s", r.external, strings.Join(got, " "), r.want)
		}
	}
}

func TestUserParameters(t *testing.T) {
	ours := func(version string) string {
		return `{"buildDefinition":{"buildType":"` + provenance.BuildType + `","externalParameters":{"config":{"repository":"https://example.test/lantern","ref":"refs/tags/v1","path":"release.yaml","sha256":"x"},"step":"compile","each":{"platform":"linux"},"version":"` + version + `"},"resolvedDependencies":` + materials() + `}}`
	}
	workflow := func(inputs string) string {
		return `{"buildDefinition":{"buildType":"https://actions.github.io/buildtypes/workflow/v1","externalParameters":{"workflow":{"repository":"https://example.test/lantern","ref":"refs/tags/v1","path":"w.yml"},"inputs":` + inputs + `}}}`
	}
	rows := []struct {
		why, version, predicate string
		want                    []string
	}{
		{"our step for a tag", provenance.PredicateType, ours("v1"), nil},
		{"our step for another version than the tag", provenance.PredicateType, ours("v2"), []string{"version"}},
		{"a workflow", provenance.PredicateType, workflow(`{}`), nil},
		{"a workflow with an input", provenance.PredicateType, workflow(`{"debug":true}`), []string{"inputs.debug"}},
		{"a build type that nobody knows", provenance.PredicateType, strings.Replace(workflow(`{}`), "actions.github.io", "elsewhere.example", 1), []string{"workflow.path", "workflow.ref", "workflow.repository"}},
		{"the request of Cloud Build", provenance.PredicateTypeV01, `{"recipe":{"type":"https://cloudbuild.googleapis.com/CloudBuildYaml@v0.1","arguments":{"@type":"x","id":"1","substitutions":{"TAG_NAME":"v1"}}}}`, nil},
		{"a substitution of a user", provenance.PredicateTypeV01, `{"recipe":{"type":"https://cloudbuild.googleapis.com/CloudBuildYaml@v0.1","arguments":{"@type":"x","substitutions":{"_X":"1"}}}}`, []string{"substitutions._X"}},
	}
	for _, r := range rows {
		var got []string
		for _, p := range claim(t, r.version, r.predicate).UserParameters() {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, r.want) {
			t.Errorf("%s: %q, want %q", r.why, got, r.want)
		}
	}
	c := claim(t, provenance.PredicateType, ours("v1"))
	if c.Source != (provenance.Source{Repository: "git+https://example.test/lantern", Ref: "refs/tags/v1", Commit: commit()}) || c.EntryPoint != "release.yaml" {
		t.Errorf("source %+v, entry point %q", c.Source, c.EntryPoint)
	}
	if got := c.Unexpected("config.", "step"); !slices.Equal(got, []string{"each.platform", "version"}) {
		t.Errorf("unexpected %q", got)
	}
}

func TestOurProvenanceIsReadBothWays(t *testing.T) {
	s, err := provenance.Encode(subjects(), compile())
	if err != nil {
		t.Fatal(err)
	}
	open, err := intoto.ParseOpen(s.Raw())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := provenance.Parse(open)
	if want, _ := provenance.Parse(s); err != nil || !reflect.DeepEqual(ours, want) {
		t.Errorf("through the open reader: %+v, %v", ours, err)
	}
	c, err := provenance.Read(s)
	if err != nil || c.Source.Commit != ours.SourceCommit() || c.Builder.ID != ours.RunDetails.Builder.ID {
		t.Errorf("%+v, %v", c, err)
	}
	smuggled, err := intoto.ParseOpen([]byte(strings.Replace(string(s.Raw()), `"predicateType"`, `"extra":1,"predicateType"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provenance.Parse(smuggled); verdict.FindingOf("", err).Code != verdict.StatementParse {
		t.Errorf("an unknown field of the statement: %v", err)
	}
}

// TestContradiction: a certificate contradicts a source only in what both name.
func TestContradiction(t *testing.T) {
	const repository, commit = "https://host.example/lantern", "9d3b2f0f"
	whole := provenance.Source{Repository: "git+" + repository + ".git", Commit: commit}
	for _, row := range []struct {
		source             provenance.Source
		repository, commit string
		want               string
	}{
		{whole, repository, commit, ""},
		{whole, "", "", ""},
		{provenance.Source{}, repository, commit, ""},
		{provenance.Source{Repository: repository}, repository, commit, ""},
		{whole, repository + "-2", commit, "the repository"},
		{whole, repository, commit + "0", "the commit"},
	} {
		if what, _, _ := row.source.Contradiction(row.repository, row.commit); what != row.want {
			t.Errorf("%+v: %q", row, what)
		}
	}
}

func FuzzRead(f *testing.F) {
	for version, predicate := range versions() {
		f.Add(version, []byte(predicate))
		f.Add(version, []byte(strings.Replace(predicate, "true", "null", 1)))
	}
	f.Fuzz(func(t *testing.T, version string, predicate []byte) {
		name, err := json.Marshal(version)
		if err != nil {
			t.Skip(err)
		}
		s, err := intoto.ParseOpen(fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"x":""}}],"predicateType":%s,"predicate":%s}`, name, predicate))
		if err != nil {
			return
		}
		bounds.Bounded(t, predicate, func() {
			if c, err := provenance.Read(s); err == nil {
				_, _ = provenance.Lint(c), c.UserParameters()
			}
		})
		c, err := provenance.Read(s)
		if err != nil {
			if !c.IsZero() || verdict.FindingOf("", err).Code.Outcome() != verdict.Refused {
				t.Fatalf("%v", err)
			}
			return
		}
		seen := map[string]bool{}
		for _, p := range c.Parameters {
			if seen[p.Name] || !json.Valid(p.Value) {
				t.Fatalf("parameter %q is there twice, or is no JSON", p.Name)
			}
			seen[p.Name] = true
		}
		for _, n := range provenance.Lint(c) {
			if n.Code == "" || n.Count < 1 || n.String() == "" {
				t.Fatalf("note %+v", n)
			}
		}
	})
}
