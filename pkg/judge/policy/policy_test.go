package policy_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const valid = "testdata/valid.yaml"

// place is how a refusal names line and column.
var place = regexp.MustCompile(`at [0-9]+:[0-9]+: `)

func text(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(valid)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func load(t testing.TB) policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(text(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func who(subject string) identity.Identity {
	return identity.Identity{Issuer: "https://accounts.example.test", Subject: subject + "@example.test", Type: identity.Email}
}

func TestParse(t *testing.T) {
	p := load(t)
	if p.Name() != "lantern" || p.Digest() != digest.Of(digest.SHA256, []byte(text(t))) {
		t.Errorf("name %q, digest %s", p.Name(), p.Digest())
	}
	if p.Closes(policy.Files) != policy.Require || p.Closes(policy.Images) != policy.Require || p.Closes("tapes") != "" {
		t.Error("the closed places are not files and images")
	}
}

// roleOf is the role in which an identity could act now.
func roleOf(p policy.Policy, who identity.Identity) (found policy.Role, known bool) {
	for _, role := range policy.Roles() {
		if p.CheckIdentity(who, role, time.Now()) == nil {
			found, known = role, true
		}
	}
	return found, known
}

func TestCheckIdentity(t *testing.T) {
	p := load(t)
	for subject, want := range map[string]policy.Role{
		"release": policy.Release, "deputy": policy.Release, "verifier": policy.Verifier, "officer": policy.Officer, "builder": policy.Builder,
	} {
		if got, known := roleOf(p, who(subject)); !known || got != want {
			t.Errorf("%s is %q, known %t, want %s", subject, got, known, want)
		}
	}
	stranger, uri := who("stranger"), who("release")
	uri.Type = identity.URI
	for _, nobody := range []identity.Identity{{}, stranger, uri} {
		if role, known := roleOf(p, nobody); known || role != "" {
			t.Errorf("%s is known as %q", nobody, role)
		}
	}
	if got := p.Expected(policy.Release); len(got) != 2 || !strings.Contains(got[0], "release@example.test") {
		t.Errorf("expected release identities: %q", got)
	}
	if got := p.Expected(policy.Builder); len(got) != 1 || !strings.Contains(got[0], "builder@example.test") {
		t.Errorf("expected builders: %q", got)
	}
}

// TestBuilderOf: an identity has the builder that lists it, and no other; one
// that two builders match has none.
func TestBuilderOf(t *testing.T) {
	p := load(t)
	id, level := policy.BuilderOf(p, who("builder"))
	if id != "https://example.test/builder" || level != 3 {
		t.Errorf("the builder is %q, level %d", id, level)
	}
	for _, other := range []identity.Identity{{}, who("release"), who("stranger")} {
		if id, level := policy.BuilderOf(p, other); id != "" || level != 0 {
			t.Errorf("%s is %q, level %d", other, id, level)
		}
	}
	if id, level := policy.BuilderOf(policy.Policy{}, who("builder")); id != "" || level != 0 {
		t.Errorf("the zero policy says %q, level %d", id, level)
	}
	patterns := func(one, two string) policy.Policy {
		head, rest, _ := strings.Cut(text(t), "builders:\n")
		_, tail, _ := strings.Cut(rest, "require:\n")
		raw := head + "builders:\n"
		for i, pattern := range []string{one, two} {
			raw += fmt.Sprintf("- {id: \"https://builder.example.test/%d\", level: %d, signers: [{issuer: \"https://accounts.example.test\", pattern: '%s@example\\.test', type: email}]}\n", i, i+1, pattern)
		}
		p, err := policy.Parse([]byte(raw+"require:\n"+tail), nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if id, level := policy.BuilderOf(patterns("build[a-z]+", "bake[a-z]+"), who("builder")); id != "https://builder.example.test/0" || level != 1 {
		t.Errorf("the first is %q, level %d", id, level)
	}
	if id, level := policy.BuilderOf(patterns("build[a-z]+", "[a-z]+lder"), who("builder")); id != "" || level != 0 {
		t.Errorf("of two it is %q, level %d", id, level)
	}
}

func TestZeroPolicyKnowsNobody(t *testing.T) {
	var p policy.Policy
	if _, known := roleOf(p, who("release")); known {
		t.Error("the zero policy knows somebody")
	}
	if _, known := roleOf(p, identity.Identity{}); known {
		t.Error("the zero policy knows nobody by name")
	}
	if p.Closes(policy.Files) != "" || len(p.Expected(policy.Release)) != 0 {
		t.Error("the zero policy says something")
	}
}

// TestNoEvidence is the part of Judge that needs no verifier: what evidence
// proves is tested where evidence can be made, in the test module.
func TestNoEvidence(t *testing.T) {
	asks := []policy.Ask{
		{},
		{Role: policy.Release, Kind: "blob", Subject: "bin/lantern", Bytes: digest.SetOf([]byte("x"))},
		{Role: policy.Release, Kind: "blob", Subject: "oci/lantern", InRegistry: true},
		{Role: policy.Release, Kind: "blob", Subject: "manifest", Whole: true},
	}
	for _, p := range []policy.Policy{load(t), {}} {
		for _, ask := range asks {
			proof, err := p.Judge(verify.Evidence{}, ask)
			if err == nil || verdict.FindingOf("", err).Code != verdict.EvidenceMissing {
				t.Errorf("ask %+v: %v, want EVIDENCE_MISSING", ask, err)
			}
			if !proof.IsZero() {
				t.Errorf("a refusal came with proof %+v", proof)
			}
		}
		if m, proof, err := p.ManifestFrom(verify.Evidence{}, nil); err == nil || verdict.FindingOf("", err).Code != verdict.EvidenceMissing || len(m.Artifacts) > 0 || !proof.IsZero() {
			t.Errorf("a manifest that nobody signed: %v, %v, %+v", err, proof, m)
		}
		if err := p.Provenance(verify.Evidence{}, "v1.0.0"); err == nil {
			t.Error("provenance that nobody signed was accepted")
		}
		v := p.Decide([]verify.Evidence{{}}, question())
		if v.Outcome() == verdict.Accepted || v.Err() == nil {
			t.Errorf("no evidence was accepted: %s", v.Headline())
		}
	}
}

func question() policy.Question {
	return policy.Question{
		Stage: policy.Published, Class: plan.Binary, Subject: "bin/lantern", Bytes: digest.SetOf([]byte("x")),
		SBOM: digest.Of(digest.SHA256, []byte("x")), Version: "v1.0.0", At: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	}
}

func TestParseRefuses(t *testing.T) {
	const release = "subject: release@example.test"
	rows := []struct{ name, old, new, says string }{
		{"another version of the file", "waybill/v1", "waybill/v2", "apiVersion"},
		{"another kind", "kind: Policy", "kind: Profile", "kind"},
		{"no name", "name: lantern\n", "", "name"},
		{"no source", "source: {repository: \"https://example.test/lantern\"}\n", "", "source"},
		{"an unknown key", "name: lantern\n", "name: lantern\nlevels: 3\n", "levels"},
		{"an unknown key in an identity", "type: email}", "type: email, regexp: true}", "regexp"},
		{"an unknown key in a builder", "- id:", "- isolated: true\n  id:", "isolated"},
		{"a key twice", "kind: Policy", "kind: Policy\nkind: Policy", "kind"},
		{"an alias", "name: lantern\n", "name: &n lantern\n", "ALIAS"},
		{"an unknown role", "  verifier:", "  auditor:", "auditor"},
		{"the builder as a role", "  verifier:", "  builder:", "builder"},
		{"an empty role", "roles:\n", "roles:\n  verifiers: []\n", "verifiers"},
		{"no issuer", "issuer: \"https://accounts.example.test\", " + release, release, "issuer"},
		{"no subject", release + ", ", "", "subject"},
		{"a subject and a pattern", release, release + ", pattern: 'release@example\\.test'", "want exactly one of subject, pattern and key"},
		{"no type", release + ", type: email", release, "type"},
		{"a pattern as a subject", release, `subject: "*@example.test"`, "not a pattern"},
		{"a pattern of everything", release, "pattern: '.*'", "pattern"},
		{"an unescaped dot in a host", release, "pattern: 'release@example.test'", "pattern"},
		{"an alternation that escapes", release, "pattern: 'release@example\\.test|b'", "pattern"},
		{"an issuer without https", "https://accounts.example.test", "http://accounts.example.test", "https"},
		{"one identity in two roles", "verifier@example.test", "release@example.test", "own identity"},
		{"a pattern that lets in another role", release, "pattern: '[a-z]+@example\\.test'", "own identity"},
		{"one identity twice in a role", "deputy@example.test", "release@example.test", "own identity"},
		{"a builder who releases", "builder@example.test", "release@example.test", "own identity"},
		{"an end that stands for none", release, release + `, until: "0001-01-01"`, "would mean that no time is set"},
		{"a beginning that stands for none", release, release + `, from: "0001-01-01T01:00:00+01:00"`, "would mean that no time is set"},
		{"an expiry that stands for never", "name: lantern\n", "name: lantern\nexpires: \"0001-01-01\"\n", "would mean that no time is set"},
		{"a window that ends before it begins", release, release + `, from: "2026-02-01", until: "2026-01-01"`, "never valid"},
		{"a time that is none", release, release + `, from: "soon"`, "soon"},
		{"a claim that no certificate makes", release, release + `, claims: {runner: mine}`, "runner"},
		{"claims that are empty", release, release + `, claims: {}`, "empty"},
		{"classes that are empty", release, release + `, classes: []`, "empty"},
		{"stages that are empty", release, release + `, stages: []`, "empty"},
		{"a signer of a class that is none", release, release + `, classes: [tape]`, "tape"},
		{"a signer of a class twice", release, release + `, classes: [image, image]`, "twice"},
		{"a signer of a stage that is none", release, release + `, stages: [dream]`, "dream"},
		{"a builder kept to a class", "subject: builder@example.test", "subject: builder@example.test, classes: [image]", "cannot limit a builder"},
		{"an officer kept to a class", "subject: officer@example.test", "subject: officer@example.test, classes: [image]", "the role policy signs none"},
		{"an officer kept to a stage", "subject: officer@example.test", "subject: officer@example.test, stages: [release]", "the role policy signs none"},
		{"a source and nobody who builds", "builders:\n- id: \"https://example.test/builder\"\n  level: 3\n  signers:\n  - {issuer: \"https://accounts.example.test\", subject: builder@example.test, type: email}\n", "", "apply to nothing"},
		{"a builder without an id", "id: \"https://example.test/builder\"", `id: ""`, "builders[0].id"},
		{"a builder without a level", "  level: 3\n", "", "0, want the highest SLSA Build level"},
		{"a builder of a level that is none", "level: 3\n", "level: 5\n", "level"},
		{"level 4 without a means", "level: 3\n", "level: 4\n  complete: true\n", "by what means"},
		{"level 4 with an empty means", "level: 3\n", "level: 4\n  complete: true\n  enforced: \" \"\n", "by what means"},
		{"level 4 whose list may be cut", "level: 3\n", "level: 4\n  enforced: no network\n", "by what means"},
		{"a means for level 3", "level: 3\n", "level: 3\n  complete: true\n  enforced: no network\n", "and no other"},
		{"one builder twice", "require:", secondBuilder("https://example.test/builder", "other") + "require:", "twice"},
		{"one identity for two builders", "require:", secondBuilder("https://example.test/other", "builder") + "require:", "own identity"},
		{"a builder without an identity", "require:", "- {id: other, level: 1}\nrequire:", "signers"},
		{"an unknown place", "images: require}", "images: require, tapes: require}", "tapes"},
		{"a place left out", ", images: require}", "}", "images"},
		{"a mode that is none", "files: require", "files: maybe", "files"},
		{"no closed places", "closed: {files: require, images: require}", "closed: {}", "closed"},
		{"no word on closed places", "closed: {files: require, images: require}", "", "closed"},
		{"digests that are none", "plan: require\n", "plan: require\ndigests: md5\n", "digests"},
		{"no word on the plan", "plan: require\n", "", "plan"},
		{"no requirements", "require:\n", "other:\n", "other"},
		{"a class left out", ", image]", "]", "image"},
		{"a class twice", ", image]", ", image, binary]", "already"},
		{"a class that is none", ", image]", ", image, tape]", "tape"},
		{"a stage left out", "stages: [staging, release]", "stages: [release]", "staging"},
		{"a stage that is none", "stages: [staging, release]", "stages: [staging, dream]", "dream"},
		{"a check left out", ", sbom: require", "", "sbom"},
		{"a check misspelt", "sbom: require", "sbom: require, sboms: require", "sboms"},
		{"a check that means nothing here", "{signature: require}}\nplan", "{signature: require, sbom: require}}\nplan", "not a check for sums"},
		{"nothing required of a class", "provenance: require, signature: require, sbom: require", "provenance: warn, signature: \"off\", sbom: \"off\"", "nothing is required"},
		{"a summary by nobody", "sbom: require", "sbom: require, summary: require", "summaries"},
		{"a threshold of none", "plan: require\n", "plan: require\nthresholds: {logs: 0}\n", "logs"},
		{"a threshold that cannot be met", "plan: require\n", "plan: require\nthresholds: {builders: 2}\n", "only 1"},
		{"a threshold of nothing known", "plan: require\n", "plan: require\nthresholds: {moons: 1}\n", "moons"},
		{"a limit that is none", "plan: require\n", "plan: require\nlimits: {manifest: soon}\n", "soon"},
		{"late evidence of nobody", "plan: require\n", "plan: require\nlate: [{predicate: x, role: nobody, stages: [release]}]\n", "role"},
		{"late evidence that is empty", "plan: require\n", "plan: require\nlate: []\n", "late"},
		{"late evidence of no kind", "plan: require\n", "plan: require\nlate: [{role: verifier, stages: [release]}]\n", "late[0].predicate"},
		{"late evidence at no stage", "plan: require\n", "plan: require\nlate: [{predicate: x, role: verifier, stages: []}]\n", "late[0].stages"},
		{"too much late evidence", "plan: require\n", "plan: require\nlate: [" + strings.Repeat("{predicate: x, role: verifier, stages: [release]}, ", 257) + "]\n", "257 entries, the limit is 256"},
		{"a level that is none", "sbom: require}\n", "sbom: require}\n  level: 5\n", "5, want 1, 2, 3 or 4"},
		{"too many builders", "require:", builders(256) + "require:", "more than 256 identities"},
		{"rules where there is no engine", "plan: require\n", "plan: require\nrules: [{name: x, classes: [binary], holds: \"true\"}]\n", "this program cannot evaluate rules"},
		{"build types without parameters", "plan: require\n", "plan: require\nbuild: {types: [x]}\n", "parameters"},
		{"parameters without build types", "plan: require\n", "plan: require\nbuild: {parameters: [{name: x, any: true}]}\n", "types"},
		{"a parameter that may be nothing", "plan: require\n", "plan: require\nbuild: {types: [x], parameters: [{name: x}]}\n", "exactly one"},
		{"a parameter that may be two things", "plan: require\n", "plan: require\nbuild: {types: [x], parameters: [{name: x, any: true, is: z}]}\n", "exactly one"},
		{"a parameter twice", "plan: require\n", "plan: require\nbuild: {types: [x], parameters: [{name: x, any: true}, {name: x, is: z}]}\n", "\"x\" is empty or occurs twice"},
		{"a parameter without a name", "plan: require\n", "plan: require\nbuild: {types: [x], parameters: [{any: true}]}\n", "\"\" is empty or occurs twice"},
		{"a placeholder that nothing fills", "plan: require\n", "plan: require\nbuild: {types: [x], parameters: [{name: x, is: \"{moon}\"}]}\n", "placeholder"},
		{"a wish for a lab", "plan: require\n", "plan: require\ntrustRoot: {lab: require}\n", "INSECURE LAB"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if !strings.Contains(text(t), r.old) {
				t.Fatalf("%q is not in %s", r.old, valid)
			}
			refused(t, strings.Replace(text(t), r.old, r.new, 1), r.says)
		})
	}
}

func builders(n int) (all string) {
	for i := range n {
		all += secondBuilder(fmt.Sprintf("https://example.test/builder%d", i), fmt.Sprintf("builder%d", i))
	}
	return all
}

func secondBuilder(id, subject string) string {
	return "- id: \"" + id + "\"\n  level: 3\n  signers: [{issuer: \"https://accounts.example.test\", subject: " + subject + "@example.test, type: email}]\n"
}

func TestParseRefusesWithoutSections(t *testing.T) {
	head, rest, _ := strings.Cut(text(t), "roles:\n")
	roles, rest, _ := strings.Cut(rest, "builders:\n")
	builders, tail, _ := strings.Cut(rest, "source:")
	release, others, _ := strings.Cut(roles, "  verifier:")
	const r, b, s = "roles:\n", "builders:\n", "source:"
	rows := []struct{ name, text, says string }{
		{"no roles", head + b + builders + s + tail, "roles.release"},
		{"roles that are empty", head + "roles: {}\n" + b + builders + s + tail, "roles.release"},
		{"nobody releases", head + r + "  verifier:" + others + b + builders + s + tail, "roles.release"},
		{"a role that is empty", head + r + release + "  verifier: []\n" + b + builders + s + tail, "roles.verifier"},
		{"no builders", head + r + roles + s + tail, "builders"},
		{
			"inputs without builders", head + r + roles + `inputs: [{tool: cross, bundles: ["{url}"], checks: {signature: require, provenance: "off"}, signers: ` +
				"[{issuer: \"https://accounts.example.test\", subject: tools@example.test, type: email}]}]\n", "no provenance says what was used",
		},
		{"builders that are empty", head + r + roles + "builders: []\n" + s + tail, "builders"},
		{"nothing", "", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { refused(t, row.text, row.says) })
	}
}

func refused(t *testing.T, text, says string) {
	t.Helper()
	p, err := policy.Parse([]byte(text), nil)
	if err == nil {
		t.Fatalf("loaded:\n%s", text)
	}
	if f := verdict.FindingOf("", err); f.Code.Outcome() != verdict.Malformed {
		t.Errorf("refused as %s: %v, want what is malformed", f.Code, err)
	}
	if !place.MatchString(err.Error()) {
		t.Errorf("the refusal names no line and column: %v", err)
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("the refusal does not name %q: %v", says, err)
	}
	if !p.Digest().IsZero() {
		t.Error("a refusal came with a policy")
	}
}
