package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// emptied is one way to make kubernetes-release ask less than it seems to,
// and a change of the same place that is none.
type emptied struct {
	name           string
	old, new, twin string
	want           string // the code of the refusal
}

// The places of kubernetes-release that are changed.
const (
	trustRelease = `subject: krel-trust@k8s-releng-prod.iam.gserviceaccount.com`
	checksAll    = "checks: {provenance: require, signature: require, sbom: require}\n  level: 3"
	planLine     = "plan: require\n"
	closedLine   = "closed: {files: require, images: require}"
	builderName  = "builder@kubernetes.example.test"
	escaped      = `krel-trust@k8s-releng-prod\.iam\.gserviceaccount\.com`
)

// ways are those that are seen when the policy is read.
func ways(text string) []emptied {
	builders := "builders:\n" + between(text, "builders:\n", "source:")
	officers := "  policy:" + between(text, "  policy:", "builders:")
	parameters := between(text, "  parameters:", "require:")
	return []emptied{
		{"an empty list of builders", builders, "builders: []\n", strings.Replace(builders, "builder@", "other@", 1), "POLICY_EMPTY"},
		{"an empty role", officers, "  policy: []\n", strings.Replace(officers, "policy@", "officer@", 1), "POLICY_EMPTY"},
		{"an empty list of parameters", parameters, " []\n", " [{name: version, is: \"{version}\"}]\n", "POLICY_EMPTY"},
		{"a misspelt field", "level: 3}", "levels: 3}", "level: 2}", "CONFIG"},
		{"a misspelt check", "sbom: require}", "sbon: require}", "sbom: warn}", "CONFIG"},
		{"a check left out", ", sbom: require}", "}", ", sbom: \"off\"}", "POLICY_EMPTY"},
		{"a class left out", "[binary, archive, file, image]", "[binary, archive, file]", "[image, file, archive, binary]", "POLICY_EMPTY"},
		{"a stage left out", "stages: [staging, release]\n", "stages: [staging]\n", "stages: [release, staging]\n", "POLICY_EMPTY"},
		{"all only warned about", checksAll, "checks: {provenance: warn, signature: warn, sbom: warn}", "checks: {provenance: warn, signature: require, sbom: warn}", "POLICY_EMPTY"},
		{"only what is not signed", checksAll, "checks: {provenance: warn, signature: warn, sbom: require}", "checks: {provenance: warn, signature: require, sbom: require}", "POLICY_EMPTY"},
		{"sums that nobody looks at", "checks: {signature: require}}", "checks: {signature: \"off\"}}", "checks: {signature: warn}}", "POLICY_EMPTY"},
		{"a level of provenance that is not required", "{provenance: require, signature: require, sbom: require}", "{provenance: warn, signature: require, sbom: require}", "{provenance: require, signature: warn, sbom: require}", "POLICY_WEAK"},
		{"a pattern of everybody", trustRelease, `pattern: '.*'`, "pattern: '" + escaped + "'", "POLICY_WEAK"},
		{"a dot that is any character", trustRelease, `pattern: 'krel-trust@k8s-releng-prod.iam.gserviceaccount.com'`, "pattern: '" + escaped + "'", "POLICY_WEAK"},
		{"an alternation that reaches too far", trustRelease, "pattern: '" + escaped + "|trust'", `pattern: '(krel-trust|krel-seal)@k8s-releng-prod\.iam\.gserviceaccount\.com'`, "POLICY_WEAK"},
		{"a pattern that lets in another role", trustRelease, `pattern: '[a-z]+@kubernetes\.example\.test'`, `pattern: 'seal-[a-z]+@kubernetes\.example\.test'`, "POLICY_WEAK"},
		{"no issuer", `issuer: "https://accounts.google.com", ` + trustRelease, trustRelease, `issuer: "https://accounts.example.test", ` + trustRelease, "POLICY_WEAK"},
		{"one identity in two roles", "verifier@kubernetes.example.test", builderName, "verifier2@kubernetes.example.test", "POLICY_WEAK"},
		{"an identity kept to no class", trustRelease, trustRelease + ", classes: []", trustRelease + ", classes: [image]", "POLICY_EMPTY"},
		{"claims that ask nothing", builderName, builderName + ", claims: {}", builderName + ", claims: {runnerEnvironment: hosted}", "POLICY_EMPTY"},
		{"a threshold of none", planLine, planLine + "thresholds: {logs: 0}\n", planLine + "thresholds: {logs: 2}\n", "POLICY_WEAK"},
		{"a key twice", closedLine, closedLine + "\n" + strings.ReplaceAll(closedLine, "require", `"off"`), strings.ReplaceAll(closedLine, "require", `"off"`), "CONFIG"},
		{"an alias", closedLine, `closed: {files: &mode require, images: *mode}`, `closed: {images: require, files: require}`, "CONFIG"},
		{"a mode that YAML reads as no", "images: require}", "images: off}", `images: "off"}`, "CONFIG"},
		{"a place left out", ", images: require}", "}", ", images: warn}", "POLICY_EMPTY"},
		{"a summary of nobody", "sbom: require}", "sbom: require, summary: require}", "sbom: require, summary: \"off\"}", "POLICY_EMPTY"},
		{"a parameter that may be two things", "config.path, is: release.yaml", "config.path, is: release.yaml, any: true", "config.path, any: true", "POLICY_EMPTY"},
		{"a placeholder that nothing fills", `ref: "refs/tags/{version}"`, `ref: "refs/tags/{tag}"`, `ref: "refs/heads/{version}"`, "CONFIG"},
		{"no source", "source: {repository: \"git+https://github.com/kubernetes/kubernetes\", ", "source: {", "source: {repository: \"git+https://github.com/kubernetes/release\", ", "POLICY_EMPTY"},
		{"a wish for a lab", `trustRoot: {lab: "off"}`, `trustRoot: {lab: require}`, `trustRoot: {lab: warn}`, "POLICY_WEAK"},
		{"an end that is none", `expires: "2027-12-31"`, `expires: "never"`, `expires: "2028-12-31"`, "CONFIG"},
		{"a list of defects of no number", "atLeast: 1", "atLeast: 0", "atLeast: 2", "CONFIG"},
		{"a plan that is only warned of", planLine, "plan: warn\n", planLine, "POLICY_WEAK"},
		{"a level of none", "level: 3}", "level: 0}", "level: 2}", "POLICY_EMPTY"},
		{"a rule that is no question", planLine, planLine + own("true"), planLine + own("size(evidence) > 1"), "CONFIG"},
		{"a rule out of reach of a no", planLine, planLine + own("size(evidence) >= 0"), planLine + own("size(evidence) >= 1"), "CONFIG"},
		{"a rule of a class that is none", planLine, planLine + own(`artifact.class != "binray"`), planLine + own(`artifact.class != "image"`), "CONFIG"},
		{"a rule of no class", planLine, planLine + strings.Replace(own("size(evidence) > 1"), "[binary]", "[]", 1), planLine + own("size(evidence) > 1"), "POLICY_EMPTY"},
	}
}

// doubted are those that load, and are seen when the policy is asked.
func doubted() []emptied {
	const vacuous = "POLICY_VACUOUS"
	return []emptied{
		{"a rule that says yes to everything", planLine, planLine + own(`artifact.class == "binary" || artifact.class != "binary"`), planLine + own(`artifact.class == "binary" || evidence.exists(e, e.role == "builder")`), vacuous},
		{"a rule that only forbids what nobody does", planLine, planLine + own(`!evidence.exists(e, e.subject == "nobody")`), planLine + own(`evidence.exists(e, e.subject != "nobody")`), vacuous},
		{"a rule that takes what is not there", planLine, planLine + own(`size(evidence) == 0 || evidence.exists(e, e.subject != "x")`), planLine + own(`evidence.exists(e, e.subject != "x")`), vacuous},
		{"a rule of every day", planLine, planLine + own(`time < timestamp("2027-01-01T00:00:00Z") || time > timestamp("2020-01-01T00:00:00Z")`), planLine + own(`time < timestamp("2027-01-01T00:00:00Z")`), vacuous},
		{"a rule of every stage", planLine, planLine + own(`stage == "release" || stage == "staging"`), planLine + own(`stage == "release" || evidence.exists(e, e.role == "builder")`), vacuous},
	}
}

func own(holds string) string {
	return "rules:\n- {name: own, classes: [binary], holds: '" + holds + "'}\n"
}

func between(text, start, end string) string {
	_, rest, _ := strings.Cut(text, start)
	inner, _, _ := strings.Cut(rest, end)
	return inner
}

// TestEmptied weakens the policy of Kubernetes in every way that we know. Each
// is refused when it is read, with line and column, or by the probe when it is
// asked; and what differs in one place from it is not.
func TestEmptied(t *testing.T) {
	s := ship(t, "kubernetes-release")
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	show := func(e emptied, when, code, where string) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.name, when, code, where)
	}
	for _, e := range ways(string(s.raw)) {
		t.Run(e.name, func(t *testing.T) {
			_, err := policy.Parse([]byte(e.in(t, s.raw, e.new)), rules(t))
			if err == nil {
				t.Fatal("it loads")
			}
			at := place.FindString(err.Error())
			if f := verdict.FindingOf("", err); string(f.Code) != e.want || f.Code.Outcome() != verdict.Malformed || at == "" {
				t.Errorf("refused as %s, want %s with line and column: %v", f.Code, e.want, err)
			}
			show(e, "read", e.want, strings.Trim(at, "at: "))
			e.twinLoads(t, s.raw)
		})
	}
	for _, e := range doubted() {
		t.Run(e.name, func(t *testing.T) {
			for text, want := range map[string]string{e.new: e.want, e.twin: "accepted"} {
				p, err := policy.Parse([]byte(e.in(t, s.raw, text)), rules(t))
				if err != nil {
					t.Fatal(err)
				}
				if got := answer(t, p, s.archive, "a published binary"); got != want {
					t.Errorf("%q is answered with %s, want %s", text, got, want)
				}
			}
			show(e, "asked", e.want, "")
		})
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d ways to empty a policy:\n%s", strings.Count(table.String(), "\n"), table.String())
}

func (e emptied) in(t *testing.T, raw []byte, change string) string {
	t.Helper()
	if !strings.Contains(string(raw), e.old) {
		t.Fatalf("%q is not in the policy", e.old)
	}
	return strings.Replace(string(raw), e.old, change, 1)
}

func (e emptied) twinLoads(t *testing.T, raw []byte) {
	t.Helper()
	if _, err := policy.Parse([]byte(e.in(t, raw, e.twin)), rules(t)); err != nil {
		t.Errorf("its twin does not load: %v", err)
	}
}

// answer is the answer of one case.
func answer(t *testing.T, p policy.Policy, archive []byte, name string) string {
	t.Helper()
	report, err := policy.Rehearse(p, archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Cases {
		if c.Name == name {
			return strings.Join(c.Got, " ")
		}
	}
	t.Fatalf("there is no case %q", name)
	return ""
}
