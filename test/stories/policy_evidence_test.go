package stories

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

const (
	content   = "the first file" // of a.bin
	fileName  = "bin/a"
	buildType = "https://example.test/script"
	builderID = "https://builder.example.test/hosted"
	otherID   = "https://builder.example.test/laptop"
	rebuilder = "rebuilder@lab.invalid"
	commit    = "9d3b2f0f4d2a7c1e5b6a8f9c0d1e2f3a4b5c6d7e"
	verifies  = "https://verifier.example.test/gate"
	resource  = "https://dl.example.test/lantern/v0.1.0/"
)

// court is a workshop in which a policy is asked about a.bin.
type court struct {
	*workshop
	text string // the policy that accepts
}

func openCourt(t *testing.T) court {
	t.Helper()
	w := openWorkshop(t)
	who := func(role string) string {
		issuer, subject := w.Lab.Identity(role)
		return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
	}
	return court{w, fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: court
roles:
  release: [%s]
  verifier: [%s]
builders:
- {id: %s, level: 3, signers: [%s]}
- {id: %s, level: 1, signers: [%s]}
source: {repository: "git+https://example.test/lantern", ref: "refs/tags/{version}"}
build:
  types: [%s]
  parameters:
  - {name: version, is: "{version}"}
  - {name: flavor, oneOf: [plain, bitter], optional: true}
require:
- stages: [staging]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: "off"}
  level: 1
- {stages: [staging], classes: [image-child], checks: {provenance: require, signature: require}}
- stages: [release]
  classes: [binary, archive, file, image]
  checks: {provenance: "off", signature: "off", sbom: "off", summary: require}
- {stages: [release], classes: [image-child], checks: {provenance: "off", signature: "off", summary: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
summaries:
- verifier: %s
  resource: "https://dl.example.test/lantern/{version}/"
  policy: {uri: "https://example.test/policy", sha256: "%s"}
  levels: {BUILD: 3}
  maxAge: 24h
`, who("release"), who("verifier"), builderID, who("builder"), otherID, who("builder-unisolated"), buildType, verifies, sum("the policy").Hex())}
}

// ask asks a changed policy about a.bin with the bundles of these names.
func (c court) ask(t *testing.T, changes []string, words string) scene.Result {
	t.Helper()
	bench{c.Scene}.policy(t, "court.yaml", c.text, changes...)
	args := []string{"waybill", "gate", "file", "a.bin", "--policy", "court.yaml", "--name", fileName, "--trusted-root", "trusted_root.json", "--release-version", scene.Version}
	for _, word := range strings.Fields(words) {
		if strings.HasPrefix(word, "--") {
			args = append(args, word)
			continue
		}
		args = append(args, "--bundle", word+".json")
	}
	return c.Run(t.Context(), args...)
}

// fields are a JSON object, with dotted paths set in it.
type fields map[string]any

// with is the object with some paths set, and those that are nil taken away.
func (f fields) with(changes fields) fields {
	raw, err := json.Marshal(f)
	if err != nil {
		panic("stories: " + err.Error())
	}
	var out fields
	if err := json.Unmarshal(raw, &out); err != nil {
		panic("stories: " + err.Error())
	}
	for path, value := range maps.All(changes) {
		steps := strings.Split(path, "/")
		at := map[string]any(out)
		for _, step := range steps[:len(steps)-1] {
			at = at[step].(map[string]any)
		}
		if at[steps[len(steps)-1]] = value; value == nil {
			delete(at, steps[len(steps)-1])
		}
	}
	return out
}

// states is a statement about content, under the name that the policy is asked
// about.
func states(predicateType string, content string, predicate fields) sign.Content {
	return statesOf(predicateType, fileName, digest.Of(digest.SHA256, []byte(content)), predicate)
}

func statesOf(predicateType, name string, d digest.Digest, predicate fields) sign.Content {
	raw, err := json.Marshal(fields{
		"_type": intoto.TypeV1, "predicateType": predicateType, "predicate": predicate,
		"subject": []any{fields{"name": name, "digest": fields{"sha256": d.Hex()}}},
	})
	if err != nil {
		panic("stories: " + err.Error())
	}
	return &sign.DSSEData{PayloadType: intoto.PayloadType, Data: raw}
}

func built1() fields {
	return fields{
		"buildDefinition": fields{
			"buildType": buildType, "externalParameters": fields{"version": scene.Version},
			"resolvedDependencies": []any{fields{"uri": "git+https://example.test/lantern@refs/tags/" + scene.Version, "digest": fields{"gitCommit": commit}}},
		},
		"runDetails": fields{"builder": fields{"id": builderID}, "metadata": fields{"invocationId": "run-1"}},
	}
}

func source(uri string) fields {
	return fields{"buildDefinition/resolvedDependencies": []any{fields{"uri": uri, "digest": fields{"gitCommit": commit}}}}
}

// said1 is provenance with something changed, signed by a role.
type said1 struct {
	name, role string
	change     fields
}

// TestPolicyBuilds: what provenance says is held against everything that the
// policy expects of a build (B11, B16, F18, F19, H22).
func TestPolicyBuilds(t *testing.T) {
	c := openCourt(t)
	c.write(t, "signed.json", c.sign(t, "release", blobOf(content)))
	const ours = "https://github.com/waybill-release/waybill/attestations/build-step/v1"
	step := fields{"buildDefinition/buildType": ours, "buildDefinition/externalParameters": fields{
		"version": scene.Version, "config": fields{"repository": "git+https://example.test/lantern", "ref": "refs/tags/" + scene.Version},
	}}
	for _, p := range []said1{
		{"built", "builder", nil},
		{"parameter", "builder", fields{"buildDefinition/externalParameters/debug": true}},
		{"value", "builder", fields{"buildDefinition/externalParameters/version": "v0.1.1"}},
		{"template", "builder", fields{"buildDefinition/externalParameters/version": "{version}"}},
		{"novalue", "builder", fields{"buildDefinition/externalParameters/version": nil}},
		{"flavor", "builder", fields{"buildDefinition/externalParameters/flavor": "bitter"}},
		{"sour", "builder", fields{"buildDefinition/externalParameters/flavor": "sour"}},
		{"injected", "builder", fields{"buildDefinition/externalParameters/flavor": `plain" || true || "`}},
		{"laptop", "builder-unisolated", fields{"runDetails/builder/id": otherID}},
		{"claimed", "builder-unisolated", nil},
		{"boasting", "builder-unisolated", fields{"runDetails/builder/id": otherID, "runDetails/metadata/invocationId": "SLSA_BUILD_LEVEL_3", "buildDefinition/internalParameters": fields{"level": 3}}},
		{"unknown", "builder", fields{"runDetails/builder/id": "https://evil.example/builder"}},
		{"typed", "builder", fields{"buildDefinition/buildType": "https://evil.example/script"}},
		{"sourceless", "builder", fields{"buildDefinition/resolvedDependencies": nil}},
		{"committed", "builder", fields{"buildDefinition/resolvedDependencies": []any{fields{"uri": "git+https://example.test/lantern@refs/tags/v0.1.0"}}}},
		{"step", "builder", step},
		{"uncommitted", "builder", fields{"buildDefinition/buildType": ours, "buildDefinition/externalParameters": step["buildDefinition/externalParameters"], "buildDefinition/resolvedDependencies": nil}},
		{"elsewhere", "builder", source("git+https://evil.example/lantern@refs/tags/v0.1.0")},
		{"branch", "builder", source("git+https://example.test/lantern@refs/heads/v0.1.0")},
		{"stranger", "mallory@evil.example", nil},
	} {
		c.write(t, p.name+".json", c.sign(t, p.role, states(provenance.PredicateType, content, built1().with(p.change))))
	}
	c.write(t, "other.json", c.sign(t, "builder", states(provenance.PredicateType, "another file", built1())))
	const l1, l3 = "  level: 1\n- {stages: [staging], classes: [image-child]", "  level: 3\n- {stages: [staging], classes: [image-child]"
	parameter := func(more string) []string {
		return []string{`  - {name: version, is: "{version}"}`, more + `  - {name: version, is: "{version}"}`}
	}
	ofSteps := append(parameter("  - {name: config, any: true}\n"), buildType, ours)
	rule := func(text string) []string {
		return []string{"plan: require\n", fmt.Sprintf("plan: require\nrules: [{name: ours, classes: [binary], holds: %q}]\n", text)}
	}
	rows := []struct {
		name   string
		change []string
		words  string
		code   string // empty: accepted
	}{
		{"as it must be", nil, "signed built", ""},
		{"B11 a parameter that nobody knows", nil, "signed parameter", "PARAM_UNKNOWN"},
		{"B11 its twin in a policy that knows it", parameter("  - {name: debug, any: true}\n"), "signed parameter", ""},
		{"B11 another value", nil, "signed value", "PARAM_VALUE"},
		{"B11 no value", nil, "signed novalue", "PARAM_VALUE"},
		{"B11 one of several values", nil, "signed flavor", ""},
		{"B11 none of them", nil, "signed sour", "PARAM_VALUE"},
		{"B16 a name that ends in a star", parameter("  - {name: \"a*\", any: true, optional: true}\n"), "signed parameter", "PARAM_UNKNOWN"},
		{"B16 a star for every version", []string{`is: "{version}"`, `is: "v*"`}, "signed built", "PARAM_VALUE"},
		{"B16 a star for every build type", []string{buildType, `"https://example.test/*"`}, "signed built", "BUILD_TYPE"},
		{"B16 a star for every repository", []string{"git+https://example.test/lantern", "git+https://example.test/*"}, "signed built", "SOURCE_REPOSITORY"},
		{"B16 a star for every ref", []string{"refs/tags/{version}", "refs/tags/*"}, "signed built", "SOURCE_REF"},
		{"B16 a star for every builder", []string{"id: " + builderID, "id: \"https://builder.example.test/h*\""}, "signed built", "BUILDER"},
		{"F18 another builder", nil, "signed unknown", "BUILDER"},
		{"F18 a builder that its signer may not speak for", nil, "signed claimed", "BUILDER"},
		{"F18 another build type", nil, "signed typed", "BUILD_TYPE"},
		{"F18 a level that the builder is not believed", []string{l1, l3}, "signed laptop", "LEVEL"},
		{"F18 a level that is only said", []string{l1, l3}, "signed boasting", "LEVEL"},
		{"F18 its twin where less is asked", nil, "signed laptop", ""},
		{"F18 its twin by the builder that is believed", []string{l1, l3}, "signed built", ""},
		{"F19 no source", nil, "signed sourceless", "SOURCE_REPOSITORY"},
		{"F19 no commit", nil, "signed committed", "SOURCE_REPOSITORY"},
		{"F19 another commit than was asked", nil, "signed built --commit=" + strings.Repeat("0", 40), "SOURCE_COMMIT"},
		{"F19 its twin", nil, "signed built --commit=" + commit, ""},
		{"F19 no commit of the repository that a parameter names", ofSteps, "signed uncommitted", "SOURCE_COMMIT"},
		{"F19 its twin, with the commit", ofSteps, "signed step", ""},
		{"another repository", nil, "signed elsewhere", "SOURCE_REPOSITORY"},
		{"a branch of the tag's name", nil, "signed branch", "SOURCE_REF"},
		{"by a stranger", nil, "signed stranger", "IDENTITY"},
		{"of another file", nil, "signed other", "NOT_BOUND"},
		{"nothing", nil, "signed", "NO_PROVENANCE"},
		{"no signature", nil, "built", "UNSIGNED"},
		{"H22 a template in the evidence", nil, "signed template", "PARAM_VALUE"},
		{"H22 words of a rule in the evidence", parameter("  - {name: \"x\", any: true, optional: true}\n"), "signed injected", "PARAM_VALUE"},
		{"H22 a rule about words of a rule", append(rule(`evidence.exists(e, e.provenance.parameters["flavor"] == "none")`), "oneOf: [plain, bitter]", "any: true"), "signed injected", "POLICY_RULE"},
		{"a rule that does not hold", rule(`evidence.exists(e, e.provenance.invocation == "run-2")`), "signed built", "POLICY_RULE"},
		{"its twin", rule(`evidence.exists(e, e.provenance.invocation == "run-1")`), "signed built", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			judgedAs(t, c.ask(t, row.change, row.words), row.code)
		})
	}
}

// judgedAs expects one refusal and no other, or an acceptance that is partial.
func judgedAs(t *testing.T, r scene.Result, code string) {
	t.Helper()
	if code == "" {
		want(t, r, 0, "OK ")
		return
	}
	refusedBy(t, r, code)
	want(t, r, 1, "→")
}

// TestPolicySigners: an identity is who is meant, when and with what is asked
// of it (C01, C02, C07).
func TestPolicySigners(t *testing.T) {
	c := openCourt(t)
	for name, who := range map[string]string{
		"release": "release", "deputy": "deputy@lab.invalid", "prefixed": "not-release@lab.invalid", "suffixed": "release@lab.invalid.evil.example",
		"dotted": "release@labXinvalid.example", "verifier": "verifier",
	} {
		c.write(t, name+".json", c.sign(t, who, blobOf(content)))
	}
	c.write(t, "built.json", c.sign(t, "builder", states(provenance.PredicateType, content, built1())))
	_, release := c.Lab.Identity("release")
	meant := fmt.Sprintf("subject: %q, type: email}]\n  verifier", release)
	become := func(text string) []string { return []string{meant, text + "}]\n  verifier"} }
	pattern := become(`pattern: '(release|deputy)@lab\.invalid', type: email`)
	exact := fmt.Sprintf("subject: %q, type: email", release)
	rules := func(holds string) string {
		return "plan: require\nrules: [{name: own, classes: [binary], holds: '" + holds + "'}]\n"
	}
	signedByRule := []string{
		`checks: {provenance: require, signature: require, sbom: "off"}`, `checks: {provenance: require, signature: "off", sbom: "off"}`,
		"plan: require\n", rules(`evidence.exists(e, e.role == "release" && e.kind == "blob")`),
	}
	builtByRule := []string{"plan: require\n", rules(fmt.Sprintf(`evidence.filter(e, e.kind == "https://slsa.dev/provenance/v1").all(e, e.role == "builder" && e.provenance.builder == "%s")`, builderID))}
	c.write(t, "elsewhere.json", c.sign(t, "builder-unisolated", states(provenance.PredicateType, content, built1())))
	rows := []struct {
		name   string
		change []string
		words  string
		code   string
	}{
		{"the identity", nil, "built release", ""},
		{"C01 a longer name", pattern, "built prefixed", "IDENTITY"},
		{"C02 a longer host", pattern, "built suffixed", "IDENTITY"},
		{"C03 a host that a dot would match", pattern, "built dotted", "IDENTITY"},
		{"C04 one of two", pattern, "built deputy", ""},
		{"C04 the other", pattern, "built release", ""},
		{"another role", nil, "built verifier", "IDENTITY_ROLE"},
		{"before it may act", become(exact + `, from: "2099-01-01"`), "built release", "IDENTITY_WINDOW"},
		{"after it might act", become(exact + `, until: "2025-01-01"`), "built release", "IDENTITY_WINDOW"},
		{"while it may act", become(exact + `, from: "2025-01-01", until: "2099-01-01"`), "built release", ""},
		{"a claim that the certificate does not make", become(exact + ", claims: {buildTrigger: push}"), "built release", "CERT_CLAIM"},
		{"of another class", become(exact + ", classes: [image]"), "built release", "IDENTITY_ROLE"},
		{"of its class", become(exact + ", classes: [binary]"), "built release", ""},
		{"at another stage", become(exact + ", stages: [release]"), "built release", "IDENTITY_ROLE"},
		{"an expired policy", []string{"name: court\n", "name: court\nexpires: \"2025-12-31\"\n"}, "built release", "POLICY_EXPIRED"},
		{"a policy that lasts", []string{"name: court\n", "name: court\nexpires: \"2125-12-31\"\n"}, "built release", ""},
		{"a lab where none is wanted", []string{"name: court\n", "name: court\ntrustRoot: {lab: \"off\"}\n"}, "built release", "TRUST_LAB"},
		{"a lab that is told of", []string{"name: court\n", "name: court\ntrustRoot: {lab: warn}\n"}, "built release", ""},
		{"a rule of one who might act no more", append(become(exact+`, until: "2025-01-01"`), signedByRule...), "built release", "POLICY_RULE"},
		{"a rule of one who may not act yet", append(become(exact+`, from: "2099-01-01"`), signedByRule...), "built release", "POLICY_RULE"},
		{"a rule of one who signs another class", append(become(exact+", classes: [image]"), signedByRule...), "built release", "POLICY_RULE"},
		{"a rule of one who acts at another stage", append(become(exact+", stages: [release]"), signedByRule...), "built release", "POLICY_RULE"},
		{"a rule of one without the claim", append(become(exact+", claims: {buildTrigger: push}"), signedByRule...), "built release", "POLICY_RULE"},
		{"a rule of one who may act", append(become(exact+`, until: "2099-01-01"`), signedByRule...), "built release", ""},
		{"a rule of a builder", builtByRule, "built release", ""},
		{"a rule of a builder whom another speaks for", builtByRule, "built elsewhere release", "POLICY_RULE"},
		{"a rule that everything meets", []string{"plan: require\n", "plan: require\nrules: [{name: vain, classes: [binary], holds: 'artifact.name != \"nobody/has/this/name\"'}]\n"}, "built release", "POLICY_VACUOUS"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := c.ask(t, row.change, row.words)
			if row.code == "POLICY_VACUOUS" { // nobody's fault but the policy's
				want(t, r, 2, "POLICY_VACUOUS")
				return
			}
			judgedAs(t, r, row.code)
		})
	}
}

// TestPolicyRebuilders: where two builders must agree, each speaks for itself
// (F20).
func TestPolicyRebuilders(t *testing.T) {
	c := openCourt(t)
	issuer, _ := c.Lab.Identity("builder")
	c.text = strings.Replace(c.text, "source: {", fmt.Sprintf("- {id: https://rebuilder.example.test, level: 2, signers: [{issuer: %q, subject: %s, type: email}]}\nthresholds: {builders: 2}\nsource: {", issuer, rebuilder), 1)
	again := built1().with(fields{"runDetails/builder/id": "https://rebuilder.example.test"})
	c.write(t, "signed.json", c.sign(t, "release", blobOf(content)))
	c.write(t, "one.json", c.sign(t, "builder", states(provenance.PredicateType, content, built1())))
	c.write(t, "twice.json", c.sign(t, "builder", states(provenance.PredicateType, content, built1().with(fields{"runDetails/metadata/invocationId": "run-2"}))))
	c.write(t, "two.json", c.sign(t, rebuilder, states(provenance.PredicateType, content, again)))
	c.write(t, "differs.json", c.sign(t, rebuilder, states(provenance.PredicateType, "a poisoned file", again)))
	c.write(t, "forged.json", c.sign(t, "builder", states(provenance.PredicateType, content, again)))
	for words, code := range map[string]string{
		"signed one two": "", "signed one differs": "REBUILD_MISMATCH", "signed one": "THRESHOLD", "signed one twice": "THRESHOLD", "signed one forged": "THRESHOLD", "signed two": "THRESHOLD",
	} {
		t.Run(words, func(t *testing.T) { judgedAs(t, c.ask(t, nil, words), code) })
	}
	judgedAs(t, c.ask(t, []string{"thresholds: {builders: 2}\n", ""}, "signed one"), "")
}
