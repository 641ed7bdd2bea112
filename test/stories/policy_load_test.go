package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// strict is a policy that loads and that lint has nothing to say of.
const strict = `apiVersion: waybill/v1
kind: Policy
name: lantern
sequence: 1
expires: "2099-12-31"
trustRoot: {lab: "off"}
roles:
  release:
  - {issuer: "https://accounts.example.test", subject: release@example.test, type: email, from: "2026-01-01"}
  verifier:
  - {issuer: "https://accounts.example.test", subject: verifier@example.test, type: email, from: "2026-01-01"}
builders:
- id: https://example.test/builder
  level: 3
  signers:
  - {issuer: "https://accounts.example.test", subject: builder@example.test, type: email, from: "2026-01-01"}
source: {repository: "git+https://example.test/lantern", ref: "refs/tags/{version}"}
build:
  types: [https://example.test/script]
  parameters:
  - {name: version, is: "{version}"}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
  level: 3
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}, level: 3}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`

// bench is a directory in which policies are written and read.
type bench struct{ *scene.Scene }

func newBench(t *testing.T) bench {
	t.Helper()
	return bench{&scene.Scene{Options: scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir()}}}
}

// policy writes a policy with texts replaced, in pairs.
func (b bench) policy(t *testing.T, name, text string, changes ...string) {
	t.Helper()
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(text, changes[i]) == 0 {
			t.Fatalf("%q is not in the policy", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	if err := os.WriteFile(b.Path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lint loads a changed policy.
func (b bench) lint(t *testing.T, changes ...string) scene.Result {
	t.Helper()
	b.policy(t, "policy.yaml", strict, changes...)
	return b.Run(t.Context(), "waybill", "policy", "lint", "policy.yaml")
}

// pattern replaces the release identity by a pattern of addresses or, where it
// looks like one, of URIs.
func pattern(text string) []string {
	kind := "email"
	if strings.Contains(text, "/") {
		kind = "uri"
	}
	return []string{"subject: release@example.test, type: email", fmt.Sprintf("pattern: '%s', type: %s", text, kind)}
}

// load is one thing changed in a policy, and what must come of it.
type load struct {
	name   string
	change []string
	says   string // a code, or a few words with it; empty: it loads
}

func loads(t *testing.T, rows []load) {
	t.Helper()
	b := newBench(t)
	want(t, b.lint(t), 0, "loads, no lint findings")
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := b.lint(t, row.change...)
			if row.says == "" {
				want(t, r, 0)
				return
			}
			want(t, r, 2, append(strings.Split(row.says, " … "), "malformed", "→")...)
			if !strings.Contains(r.Stderr, " at ") || strings.Contains(r.Stdout, "loads") {
				t.Errorf("line and column are not named:\n%s%s", r.Stdout, r.Stderr)
			}
		})
	}
}

// TestPolicyYAML: a policy says the same to every reader of YAML (B12).
func TestPolicyYAML(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%[1]c [%s]\n", c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 8))
	}
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	loads(t, []load{
		{"an anchor", []string{"name: lantern", "name: &n lantern"}, "CONFIG … YAML_ALIAS"},
		{"an alias", []string{"{signature: require}}\nplan: require", "{signature: &m require}}\nplan: *m"}, "CONFIG … YAML_ALIAS"},
		{"a bomb of aliases", []string{"kind: Policy\n", "kind: Policy\n" + bomb}, "CONFIG … YAML_ALIAS"},
		{"a merge key", []string{"{files: require,", "{<<: {files: require},"}, "CONFIG … YAML_ALIAS"},
		{"a key twice", []string{"  level: 3\n  signers", "  level: 3\n  level: 1\n  signers"}, "CONFIG … YAML_DUP_KEY"},
		{"a key twice, once quoted", []string{"plan: require\n", "plan: require\n\"plan\": \"off\"\n"}, "CONFIG … YAML_DUP_KEY"},
		{"the key once, quoted", []string{"plan: require\n", "\"plan\": require\n"}, ""},
		{"a tag", []string{"  level: 3\n  signers", "  level: !!int \"3\"\n  signers"}, "CONFIG … YAML_TAG"},
		{"a tag of somebody's own", []string{"plan: require", "plan: !run require"}, "CONFIG … YAML_TAG"},
		{"no, which is false to some", []string{"plan: require", "plan: no"}, "CONFIG … YAML_TYPE"},
		{"off, which is false to some", []string{"images: require}", "images: off}"}, "CONFIG … YAML_TYPE"},
		{"off, in quotes", []string{"images: require}", "images: \"off\"}"}, ""},
		{"yes, where true belongs", []string{`{name: version, is: "{version}"}`, "{name: version, any: yes}"}, "CONFIG … YAML_TYPE"},
		{"true", []string{`{name: version, is: "{version}"}`, "{name: version, any: true}"}, ""},
		{"an octal number", []string{"sequence: 1", "sequence: 010"}, "CONFIG … YAML_TYPE"},
		{"an octal number of YAML 1.2", []string{"sequence: 1", "sequence: 0o10"}, "CONFIG … YAML_TYPE"},
		{"a number of base sixty", []string{"sequence: 1", "sequence: 1:30"}, "CONFIG … YAML_TYPE"},
		{"a number", []string{"sequence: 1", "sequence: 10"}, ""},
		{"a number that is text", []string{"sequence: 1", "sequence: \"1\""}, "CONFIG … YAML_TYPE"},
		{"a time that is none to some", []string{`expires: "2099-12-31"`, "expires: 2099-12-31"}, "CONFIG … YAML_TYPE"},
		{"an unknown key", []string{"plan: require\n", "plan: require\nplans: require\n"}, "CONFIG … YAML_UNKNOWN_KEY"},
		{"a key in other letters", []string{"plan: require\n", "Plan: require\n"}, "CONFIG … YAML_UNKNOWN_KEY"},
		{"a name with a zero-width space", []string{"name: lantern", "name: lantern\u200b"}, "CONFIG … ENCODING"},
		{"a name with a soft hyphen", []string{"name: lantern", "name: lan\u00adtern"}, "CONFIG … ENCODING"},
		{"a name with a tag character, as an escape", []string{"name: lantern", `name: "lantern\U000E0061"`}, "CONFIG … ENCODING"},
		{"a name with a space that is none", []string{"name: lantern", "name: \"lantern\u00a0two\""}, "CONFIG … ENCODING"},
		{"a name with a letter of another script", []string{"name: lantern", "name: lantérn"}, ""},
		{"two documents", []string{"kind: Policy\n", "kind: Policy\n---\n"}, "CONFIG … YAML_DOCUMENT"},
		{"a bottomless list", []string{"[https://example.test/script]", deep}, "CONFIG … LIMIT_DEPTH"},
		{"half of it", []string{"closed: {files: require, images: require}", "closed: {files: require,"}, "CONFIG … YAML_SYNTAX"},
	})
}

// TestPolicyPatterns: a pattern of identities lets in nobody but those who are
// meant (B16, C01 to C05, C07).
func TestPolicyPatterns(t *testing.T) {
	loads(t, []load{
		{"C01 C02 a pattern, anchored by us", pattern(`(krel-staging|krel-trust)@example\.test`), ""},
		{"C03 an open dot in the host", pattern(`release@example.test`), "POLICY_WEAK … matches any character"},
		{"C03 its twin", pattern(`release@example\.test`), ""},
		{"C04 an alternation that reaches past the anchors", pattern(`^nobody@example\.test$|b`), "POLICY_WEAK … into a group"},
		{"C04 its twin", pattern(`(nobody|somebody)@example\.test`), ""},
		{"C02 a host that goes on", pattern(`release@example\.test[a-z.]*`), "POLICY_WEAK … up to the end"},
		{"C05 a part of an address", pattern(`.*github\.com/lantern/lantern/.*`), "POLICY_WEAK … letter by letter"},
		{"C05 anybody's repository", pattern(`https://github\.com/.*`), "POLICY_WEAK … letter by letter"},
		{"C05 an owner whose name goes on", pattern(`https://github\.com/lantern.*`), "POLICY_WEAK … up to a slash"},
		{"C05 its twin", pattern(`https://github\.com/lantern/.*`), ""},
		{"C07 everybody", pattern(`.*`), "POLICY_WEAK … of any owner"},
		{"C07 everybody with a name", pattern(`.+`), "POLICY_WEAK … of any owner"},
		{"C07 nothing", pattern(``), "POLICY_EMPTY"},
		{"C07 an empty subject", []string{"subject: release@example.test", `subject: ""`}, "POLICY_EMPTY"},
		{"C07 no issuer", []string{`issuer: "https://accounts.example.test", subject: release@`, `subject: release@`}, "POLICY_WEAK … no issuer"},
		{"C07 an empty issuer", []string{`issuer: "https://accounts.example.test", subject: release@`, `issuer: "", subject: release@`}, "POLICY_WEAK … no issuer"},
		{"C07 any issuer", []string{`issuer: "https://accounts.example.test", subject: release@`, `issuer: ".*", subject: release@`}, "POLICY_WEAK … https address"},
		{"C07 no kind of name", []string{"subject: release@example.test, type: email", "subject: release@example.test"}, "POLICY_WEAK … type"},
		{"B16 a star in a name", []string{"subject: release@example.test", `subject: "*@example.test"`}, "POLICY_WEAK"},
		{"B16 a glob where a pattern belongs", pattern(`*@example.test`), "POLICY_WEAK … parse"},
		{"B16 the not of globs", pattern(`[!x]elease@example\.test`), "POLICY_WEAK … [^…]"},
		{"B16 the not of patterns", pattern(`[^x]elease@example\.test`), ""},
		{"one identity in two roles", []string{"subject: verifier@", "subject: release@"}, "POLICY_WEAK … own identity"},
		{"a pattern that lets in another role", pattern(`[a-z]+@example\.test`), "POLICY_WEAK … own identity"},
	})
}

// TestPolicyFields: every field is used or the policy does not load (C06), and
// no mode is anything but require, warn and off.
func TestPolicyFields(t *testing.T) {
	const release = "release@example.test, type: email"
	loads(t, []load{
		{"C06 a pattern beside the subject", []string{"subject: release@example.test", `subject: release@example.test, pattern: 'nobody@example\.test'`}, "POLICY_EMPTY … exactly one of"},
		{"C06 a field of another engine", []string{release, release + ", subjectRegExp: nobody"}, "CONFIG … YAML_UNKNOWN_KEY"},
		{"C06 a claim that no certificate makes", []string{release, release + ", claims: {workflow: nobody}"}, "CONFIG … unknown claim"},
		{"C06 its twin", []string{release, release + ", claims: {buildTrigger: push}"}, ""},
		{"C06 a level of what is not required", []string{"{signature: require}}\nplan", "{signature: require}, level: 3}\nplan"}, "POLICY_WEAK … not required"},
		{"C06 a check that means nothing here", []string{"{signature: require}}\nplan", "{signature: require, provenance: require}}\nplan"}, "CONFIG … not a check for"},
		{"C06 a parameter in a build of no type", []string{"  types: [https://example.test/script]\n", ""}, "POLICY_EMPTY … types"},
		{"C06 a placeholder that nothing fills", []string{`is: "{version}"`, `is: "{moon}"`}, "CONFIG … placeholder"},
		{"C06 a resource with a placeholder that nothing fills", []string{"plan: require\n", "plan: require\n" + summaries("https://dl.example.test/{moon}/")}, "CONFIG … placeholder"},
		{"C06 its twin that is filled", []string{"plan: require\n", "plan: require\n" + summaries("https://dl.example.test/{version}/")}, ""},
		{"a mode that is none", []string{"plan: require", "plan: maybe"}, "CONFIG … require, warn or off"},
		{"a mode of a place that is none", []string{"{files: require", "{files: enforce"}, "CONFIG … require, warn or off"},
		{"a mode of a check that is none", []string{"provenance: require", "provenance: optional"}, "CONFIG … require, warn or off"},
		{"a mode in capitals", []string{"plan: require", "plan: Require"}, "CONFIG … require, warn or off"},
		{"an empty mode", []string{"plan: require", `plan: ""`}, "CONFIG … require, warn or off"},
		{"a wish for a lab", []string{`{lab: "off"}`, "{lab: require}"}, "POLICY_WEAK … INSECURE LAB"},
	})
}

// summaries asks for the word of a verifier about a resource.
func summaries(resource string) string {
	return fmt.Sprintf("summaries: [{verifier: \"https://example.test/verifier\", resource: %q, maxAge: 24h, levels: {BUILD: 2}, "+
		"policy: {uri: \"https://example.test/policy\", sha256: \"%s\"}}]\n", resource, strings.Repeat("0", 63)+"1")
}

// TestPolicyEmptied empties a policy in every way that famous engines let
// pass: each is a load error, and none of them asks for nothing.
func TestPolicyEmptied(t *testing.T) {
	const checks = "{provenance: require, signature: require, sbom: require}"
	head, _, _ := strings.Cut(strict, "require:\n")
	_, tail, _ := strings.Cut(strict, "plan: require\n")
	_, require, _ := strings.Cut(strings.TrimSuffix(strict, tail), head)
	builders := strict[strings.Index(strict, "- id:"):strings.Index(strict, "source:")]
	roles := strict[strings.Index(strict, "  release:\n"):strings.Index(strict, "builders:")]
	loads(t, []load{
		{"no requirements", []string{require, "plan: require\n"}, "POLICY_EMPTY … require"},
		{"requirements that are empty", []string{require, "require: []\nplan: require\n"}, "POLICY_EMPTY … require"},
		{"a class left out", []string{"classes: [binary, archive, file, image]", "classes: [archive, file, image]"}, "POLICY_EMPTY … binary"},
		{"classes that are empty", []string{"classes: [binary, archive, file, image]", "classes: []"}, "POLICY_EMPTY … classes"},
		{"a stage left out", []string{"stages: [staging, release]", "stages: [staging]"}, "POLICY_EMPTY … release"},
		{"checks that are empty", []string{"checks: " + checks, "checks: {}"}, "POLICY_EMPTY … checks"},
		{"a check left out", []string{checks, "{provenance: require, sbom: require}"}, "POLICY_EMPTY … signature"},
		{"every check off", []string{checks + "\n  level: 3", `{provenance: "off", signature: "off", sbom: "off"}`}, "POLICY_EMPTY … all checks of"},
		{"every check a warning", []string{checks + "\n  level: 3", "{provenance: warn, signature: warn, sbom: warn}"}, "POLICY_EMPTY … nothing is required"},
		{"nobody who releases", []string{roles, "  verifier: [{issuer: \"https://a.example.test\", subject: v@example.test, type: email}]\n"}, "POLICY_EMPTY … roles.release"},
		{"a role that is empty", []string{roles, "  release: []\n"}, "POLICY_EMPTY … roles.release"},
		{"no builders", []string{"builders:\n" + builders, ""}, "POLICY_EMPTY … builders"},
		{"builders that are empty", []string{"builders:\n" + builders, "builders: []\n"}, "POLICY_EMPTY … builders"},
		{"no source", []string{`{repository: "git+https://example.test/lantern", ref: "refs/tags/{version}"}`, "{}"}, "POLICY_EMPTY … source.repository"},
		{"parameters that are empty", []string{"  parameters:\n  - {name: version, is: \"{version}\"}\n", "  parameters: []\n"}, "POLICY_EMPTY … parameters"},
		{"a parameter that may be nothing", []string{`{name: version, is: "{version}"}`, "{name: version, oneOf: []}"}, "POLICY_EMPTY … oneOf"},
		{"a parameter that may be an empty text", []string{`{name: version, is: "{version}"}`, `{name: version, oneOf: [""]}`}, "POLICY_EMPTY … oneOf"},
		{"thresholds that are empty", []string{"plan: require\n", "plan: require\nthresholds: {}\n"}, "POLICY_EMPTY … thresholds"},
		{"a threshold of none", []string{"plan: require\n", "plan: require\nthresholds: {logs: 0}\n"}, "POLICY_WEAK … logs"},
		{"closed places left out", []string{"closed: {files: require, images: require}\n", ""}, "POLICY_EMPTY … closed"},
		{"one closed place left out", []string{", images: require}", "}"}, "POLICY_EMPTY … images"},
		{"rules that are empty", []string{"plan: require\n", "plan: require\nrules: []\n"}, "POLICY_EMPTY … rules"},
		{"late evidence that is empty", []string{"plan: require\n", "plan: require\nlate: []\n"}, "POLICY_EMPTY … late"},
		{"nothing at all", []string{strict, ""}, "CONFIG"},
	})
}

// TestPolicyRulesRun holds rules to what they may do (H22): they see facts,
// and there is nothing that they could reach, repeat or wait for.
func TestPolicyRulesRun(t *testing.T) {
	holds := func(expression string) []string {
		return []string{"plan: require\n", fmt.Sprintf("plan: require\nrules: [{name: ours, classes: [binary], holds: %q}]\n", expression)}
	}
	nested := "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(b, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(c, " +
		"[1, 2, 3, 4, 5, 6, 7, 8, 9].all(d, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(e, artifact.name == \"x\")))))"
	loads(t, []load{
		{"a rule", holds(`evidence.exists(e, e.role == "builder")`), ""},
		{"a rule that cannot fail", holds("true"), "CONFIG"},
		{"a call over the network", holds(`http.get("https://evil.example").ok`), "CONFIG … http"},
		{"a file", holds(`readFile("/etc/passwd") == ""`), "CONFIG … readFile"},
		{"an environment", holds(`env("TOKEN") == ""`), "CONFIG … env"},
		{"a clock", holds(`now() > timestamp("2026-01-01T00:00:00Z")`), "CONFIG … now"},
		{"a template", holds("{{ artifact.name }} == \"x\""), "CONFIG"},
		{"loops within loops", holds(nested), "CONFIG"},
		{"no answer of yes or no", holds("artifact.name"), "CONFIG"},
		{"a field that there is not", holds(`artifact.colour == "red"`), "CONFIG … colour"},
	})
}

// TestPolicyCases: a rehearsal that goes otherwise than expected is refused,
// and a file of cases in which nothing could is not read.
func TestPolicyCases(t *testing.T) {
	b := newBench(t)
	shipped := func(suffix string) string {
		raw, err := os.ReadFile(filepath.Join("..", "..", "policies", "example-release"+suffix))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	first, rest, _ := strings.Cut(shipped(".txtar"), "-- no evidence of an archive in staging --\n")
	const wanted = "want: [NO_PROVENANCE, NO_SBOM, UNSIGNED]"
	rows := []struct {
		name, cases string
		policy      []string
		status      int
		said        string
	}{
		{"as they are", first + "-- no evidence of an archive in staging --\n" + rest, nil, 0, "0 failed"},
		{"another code", strings.Replace(shipped(".txtar"), wanted, "want: [NO_PROVENANCE, NO_SBOM]", 1), nil, 1, "POLICY_CASES"},
		{"a yes for a no", strings.Replace(shipped(".txtar"), wanted, "want: [accepted]", 1), nil, 2, "put refusals first"},
		{"a weaker policy", shipped(".txtar"), []string{"signature: require, sbom: require", "signature: warn, sbom: require"}, 1, "POLICY_CASES"},
		{"nothing that is accepted", first, nil, 2, "CONFIG"},
		{"a case that expects nothing", strings.Replace(shipped(".txtar"), wanted, "want: []", 1), nil, 2, "want is empty"},
		{"no case", "", nil, 2, "no cases"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b.policy(t, "p.yaml", shipped(".yaml"), row.policy...)
			b.policy(t, "p.txtar", row.cases)
			want(t, b.Run(t.Context(), "waybill", "policy", "test", "p.yaml"), row.status, row.said)
		})
	}
}

// TestPolicyOverLimits: a policy that is too large is refused before it is
// read.
func TestPolicyOverLimits(t *testing.T) {
	b := newBench(t)
	b.policy(t, "policy.yaml", strict)
	if err := os.Truncate(b.Path("policy.yaml"), 1<<30); err != nil {
		t.Fatal(err)
	}
	want(t, b.Run(t.Context(), "waybill", "policy", "lint", "policy.yaml"), 1, "LIMIT")
	want(t, b.Run(t.Context(), "waybill", "policy", "lint", "nowhere.yaml"), 2, "nowhere.yaml")
	want(t, b.Run(t.Context(), "waybill", "policy", "lint", filepath.Base(b.Dir)), 2)
}
