package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// everyPlace names an identity in every place where a policy may. Each %s is
// one entry of signers.
const everyPlace = `apiVersion: waybill/v1
kind: Policy
name: every-place
roles:
  release: [%[1]s]
  verifier: [%[2]s]
  policy: [%[3]s]
  channel: [%[4]s]
  signoff: [%[5]s]
  reconciler: [%[6]s]
  vex: [%[11]s]
builders:
- {id: "https://example.test/builder", level: 3, signers: [%[7]s]}
sources:
- {id: "https://verifier.example.test/source", levels: {source: 3}, signers: [%[9]s]}
inputs:
- {tool: seat, signers: [%[10]s], checks: {signature: require, provenance: "off"}}
summaries:
- verifier: https://verifier.example.test/gate
  signers: [%[8]s]
  resource: "https://dl.example.test/lantern/"
  policy: {uri: "https://example.test/policy", sha256: "0000000000000000000000000000000000000000000000000000000000000001"}
  levels: {BUILD: 3}
  maxAge: 24h
rebuilt: {atLeast: 1, stages: [staging], of: [{id: "https://example.test/rebuilder", signers: [%[12]s]}]}
source: {repository: "git+https://example.test/lantern"}
require:
- stages: [staging, release]
  classes: [binary]
  checks: {provenance: "off", signature: "off", sbom: "off", summary: require}
- stages: [staging, release]
  classes: [archive, file, image]
  checks: {provenance: require, signature: "off", sbom: "off"}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: "off"}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
late:
- {predicate: "https://example.test/late/v1", role: verifier, stages: [release]}
`

// seat is one of those places: who is named in it, and the class of what he
// signs there, or the role that is asked for where that is of no class.
type seat struct {
	at    string // as the schema finds it
	name  string
	kind  string
	class plan.Class
	role  Role
}

func seats() []seat {
	return []seat{
		{"roles/release", "release", kindBlob, plan.Sums, ""},
		{"roles/verifier", "verifier", vsa.PredicateType, plan.Binary, ""},
		{"roles/policy", "policy", "x", "", Officer},
		{"roles/channel", "channel", "x", "", Channels},
		{"roles/signoff", "signoff", "x", "", Signoffs},
		{"roles/reconciler", "reconciler", "x", "", Reconciler},
		{"builders/items/signers", "builder", "https://slsa.dev/provenance/v1", plan.Archive, ""},
		{"summaries/items/signers", "verifier", vsa.PredicateType, plan.Binary, ""},
		{"sources/items/signers", "source", "x", "", sources},
		{"inputs/items/signers", "keyless", kindBlob, plan.Other, ""},
		{"roles/vex", "vex", "x", "", vexSigner},
		{"rebuilt/of/items/signers", "rebuilder", rebuildrecord.PredicateType, "", rebuilder},
	}
}

// entry is a signer as it is written: JSON is YAML.
type entry map[string]any

func (e entry) with(key string, value any) entry {
	e = maps.Clone(e)
	if key == "key" || key == "pattern" { // in place of a subject
		delete(e, "subject")
	}
	if key == "key" {
		e = entry{}
	}
	e[key] = value
	return e
}

func (s seat) entry() entry {
	return entry{"issuer": "https://accounts.example.test", "subject": s.name + "@example.test", "type": "email"}
}

func (s seat) who() identity.Identity {
	return identity.Identity{Issuer: "https://accounts.example.test", Subject: s.name + "@example.test", Type: identity.Email}
}

// court writes the policy with one entry changed.
func court(t *testing.T, changed int, to entry) string {
	t.Helper()
	var texts []any
	for i, s := range seats() {
		e := s.entry()
		if i == changed {
			e = to
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return fmt.Sprintf(everyPlace, texts...)
}

const summaryOfTest = `{"verifier": {"id": "https://verifier.example.test/gate"}, "timeVerified": "2026-11-19T12:00:00Z", "resourceUri": "https://dl.example.test/lantern/",
"policy": {"uri": "https://example.test/policy", "digest": {"sha256": "0000000000000000000000000000000000000000000000000000000000000001"}},
"verificationResult": "PASSED", "verifiedLevels": ["SLSA_BUILD_LEVEL_3"], "slsaVersion": "1.0"}`

const rebuildOfTest = `{"rebuilder": {"id": "https://example.test/rebuilder"}, "source": {"repository": "git+https://example.test/lantern", "commit": "9d3b2f0f"},
"provenance": ["0000000000000000000000000000000000000000000000000000000000000001"], "isolation": "isolated", "finishedOn": "2026-11-19T12:00:00Z"}`

// buildOf is the predicate of provenance by a builder.
func buildOf(builder string) string {
	return fmt.Sprintf(`{"buildDefinition": {"buildType": "https://example.test/type", "externalParameters": {"version": "v1.0.0"},
"resolvedDependencies": [{"uri": "git+https://example.test/lantern@refs/tags/v1.0.0", "digest": {"gitCommit": "9d3b2f0f4d2a7c1e5b6a8f9c0d1e2f3a4b5c6d7e"}}]},
"runDetails": {"builder": {"id": %q}, "metadata": {"invocationId": "run"}}}`, builder)
}

// asking is a question about a release that is public.
func asking(t *testing.T, class plan.Class) Question {
	t.Helper()
	q, err := testCase{Ask: caseQuestion{
		Stage: Published, Class: class, Subject: "lantern", Text: "lantern", Version: "v1.0.0", At: "2026-11-19T13:00:00Z",
	}}.question()
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// saidBy is evidence as an identity would have signed it, with one claim.
func saidBy(t *testing.T, q Question, who identity.Identity, kind, predicate string) *fact {
	t.Helper()
	said := map[string]any{"a": "b"}
	if predicate != "" {
		said = nil
		if err := json.Unmarshal([]byte(predicate), &said); err != nil {
			t.Fatal(err)
		}
	}
	f, err := caseFact{Type: kind, By: who, Signed: "2026-11-19T12:00:00Z", Claims: map[string]string{"buildTrigger": "push"}, Predicate: said}.fact(q)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// asks is what a policy answers to what a seat signs.
func (s seat) asks(t *testing.T, p Policy, who identity.Identity) error {
	t.Helper()
	q := asking(t, s.class)
	predicate := map[string]string{"builder": buildOf("https://example.test/builder"), "verifier": summaryOfTest, "rebuilder": rebuildOfTest}[s.name]
	f := saidBy(t, q, who, s.kind, predicate)
	if strings.HasPrefix(s.at, "inputs") {
		p, _ = p.NewSession().OfInput("", "seat")
	}
	if s.role != "" {
		return say(p.actors.acts(f, s.role, &q))
	}
	for _, r := range (&judgement{policy: &p, q: q, facts: []*fact{f}}).decide() {
		if r.mode == Require && !r.met {
			return r.err
		}
	}
	return nil
}

// The two patterns match different names, and build-two in both.
const (
	ofBuildAny = `{issuer: "https://issuer.example.test", pattern: 'build-[a-z]+@example\.test', type: email}`
	ofAnyTwo   = `{issuer: "https://issuer.example.test", pattern: '[a-z]+-two@example\.test', type: email}`
)

func overlapping(t *testing.T, more string) *Policy {
	t.Helper()
	text := court(t, -1, nil)
	a, b := strings.Index(text, "builders:\n"), strings.Index(text, "sources:\n")
	text = text[:a] + "builders:\n- {id: one, level: 3, signers: [" + ofBuildAny + "]}\n- {id: two, level: 1, signers: [" + ofAnyTwo + "]}\n" + more + text[b:]
	p, err := Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// answer is the code of the one refusal about a file, empty if it is accepted.
func answerTo(t *testing.T, p *Policy, facts ...*fact) verdict.Code {
	t.Helper()
	for _, r := range (&judgement{policy: p, q: asking(t, plan.Archive), facts: facts}).decide() {
		if r.mode == Require && !r.met {
			return verdict.FindingOf("", r.err).Code
		}
	}
	return ""
}

// TestOneSignerIsOneBuilder: an identity that matches the signers of two
// builders speaks for neither, be it that two must agree or that one of them is
// believed more.
func TestOneSignerIsOneBuilder(t *testing.T) {
	q := asking(t, plan.Archive)
	built := func(by, builder string) *fact {
		who := identity.Identity{Issuer: "https://issuer.example.test", Subject: by + "@example.test", Type: identity.Email}
		return saidBy(t, q, who, "https://slsa.dev/provenance/v1", buildOf(builder))
	}
	agree, alone := overlapping(t, "thresholds: {builders: 2}\n"), overlapping(t, "")
	for _, row := range []struct {
		name  string
		p     *Policy
		facts []*fact
		want  verdict.Code
	}{
		{"two signers", agree, []*fact{built("build-one", "one"), built("test-two", "two")}, ""},
		{"one signer of both", agree, []*fact{built("build-two", "one"), built("build-two", "two")}, verdict.Identity},
		{"a signer of both beside one", agree, []*fact{built("build-one", "one"), built("build-two", "two")}, verdict.Threshold},
		{"two runs of one signer", agree, []*fact{built("build-one", "one"), built("build-one", "one")}, verdict.Threshold},
		{"the signer of the better builder", alone, []*fact{built("build-one", "one")}, ""},
		{"the signer of both as the better builder", alone, []*fact{built("build-two", "one")}, verdict.Identity},
		{"the signer of the other builder", alone, []*fact{built("test-two", "one")}, verdict.Builder},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := answerTo(t, row.p, row.facts...); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
	m := &judgement{policy: alone, q: q}
	for by, want := range map[string]int{"build-one": 3, "build-two": 1, "test-two": 1} {
		r, err := built(by, "one").level(m)
		if got := r.On("build").Level; err != nil || got != want {
			t.Errorf("%s shows level %d of the Build track, want %d: %v", by, got, want, err)
		}
	}
}

// TestRetiredBuilderShowsNoLevel: the level of a build is believed of a signer
// who may speak for the builder, and of nobody else.
func TestRetiredBuilderShowsNoLevel(t *testing.T) {
	q := asking(t, plan.Archive)
	for until, want := range map[string]int{"2026-11-20": 3, "2026-11-19": 1} {
		p, err := Parse([]byte(court(t, 6, seats()[6].entry().with("until", until))), nil)
		if err != nil {
			t.Fatal(err)
		}
		f := saidBy(t, q, seats()[6].who(), "https://slsa.dev/provenance/v1", buildOf("https://example.test/builder"))
		r, err := f.level(&judgement{policy: &p, q: q})
		if got := r.On("build").Level; err != nil || got != want {
			t.Errorf("until %s: level %d of the Build track, want %d: %v", until, got, want, err)
		}
	}
}

// TestOnlyItsSignerTakesBack: a verifier's later no counts if it is by who may
// speak for that verifier.
func TestOnlyItsSignerTakesBack(t *testing.T) {
	text := strings.Replace(court(t, -1, nil), "\"subject\":\"verifier@example.test\",\"type\":\"email\"}]\n  policy", "\"subject\":\"verifier@example.test\",\"type\":\"email\"}, {issuer: \"https://accounts.example.test\", subject: deputy@example.test, type: email}]\n  policy", 1)
	takenBack(t, text)
	a, b := strings.Index(text, "  signers: [{\"issuer\""), strings.Index(text, "  resource:")
	takenBack(t, strings.Replace(text[:a]+text[b:], ", {issuer: \"https://accounts.example.test\", subject: deputy@example.test, type: email}", "", 1))
}

func takenBack(t *testing.T, text string) {
	t.Helper()
	p, err := Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	q := asking(t, plan.Binary)
	failed := strings.NewReplacer("PASSED", "FAILED", "SLSA_BUILD_LEVEL_3", "FAILED", "12:00:00Z", "12:30:00Z").Replace(summaryOfTest)
	for by, want := range map[string]verdict.Code{"verifier": verdict.VSAResult, "deputy": "", "release": "", "stranger": ""} {
		who := identity.Identity{Issuer: "https://accounts.example.test", Subject: by + "@example.test", Type: identity.Email}
		facts := []*fact{saidBy(t, q, seats()[1].who(), vsa.PredicateType, summaryOfTest), saidBy(t, q, who, vsa.PredicateType, failed)}
		var got verdict.Code
		for _, r := range (&judgement{policy: &p, q: q, facts: facts}).decide() {
			if r.mode == Require && !r.met {
				got = verdict.FindingOf("", r.err).Code
			}
		}
		if got != want {
			t.Errorf("a later no by %s: %q, want %q", by, got, want)
		}
	}
}

// fixed is met, by these signers.
type fixed []string

func (f fixed) judge(*judgement) answer {
	a := answer{met: true}
	for _, who := range f {
		a.proofs = append(a.proofs, verdict.Proof{Identity: who, Issuer: "https://accounts.example.test"})
	}
	return a
}

// TestAtLeastCountsSigners: what one signer says twice is said once.
func TestAtLeastCountsSigners(t *testing.T) {
	for _, row := range []struct {
		name  string
		n     int
		rules []requirement
		met   bool
	}{
		{"two of two", 2, []requirement{fixed{"a"}, fixed{"b"}}, true},
		{"one twice", 2, []requirement{fixed{"a"}, fixed{"a"}}, false},
		{"one twice and another", 2, []requirement{fixed{"a"}, fixed{"a"}, fixed{"b"}}, true},
		{"one, where one will do", 1, []requirement{fixed{"a"}, fixed{"a"}}, true},
		{"without a signer", 2, []requirement{fixed{"a"}, fixed{}}, true},
	} {
		r, err := threshold(row.n, row.rules...)
		if err != nil {
			t.Fatal(err)
		}
		if a := r.judge(&judgement{}); a.met != row.met || a.met != (a.err == nil) {
			t.Errorf("%s: met %t, %v", row.name, a.met, a.err)
		}
	}
}

// TestRulesSeeWhoMayAct changes one fact of a signer: a rule of the policy's own
// sees a role only where the signer may act in it, and of provenance nothing
// unless he may speak for the builder.
func TestRulesSeeWhoMayAct(t *testing.T) {
	release, builder := 0, 6
	for _, row := range []struct {
		name  string
		seat  int
		entry entry
		class plan.Class
		role  Role
	}{
		{"a signer", release, seats()[release].entry(), plan.Archive, Release},
		{"before the end", release, seats()[release].entry().with("until", "2026-11-20"), plan.Archive, Release},
		{"after the end", release, seats()[release].entry().with("until", "2026-11-19"), plan.Archive, ""},
		{"of the class", release, seats()[release].entry().with("classes", []string{"archive"}), plan.Archive, Release},
		{"of another class", release, seats()[release].entry().with("classes", []string{"image"}), plan.Archive, ""},
		{"at another stage", release, seats()[release].entry().with("stages", []string{"staging"}), plan.Archive, ""},
		{"without the claim", release, seats()[release].entry().with("claims", map[string]string{"buildTrigger": "schedule"}), plan.Archive, ""},
		{"a builder", builder, seats()[builder].entry(), plan.Archive, Builder},
		{"a builder after the end", builder, seats()[builder].entry().with("until", "2026-11-19"), plan.Archive, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, err := Parse([]byte(court(t, row.seat, row.entry)), nil)
			if err != nil {
				t.Fatal(err)
			}
			s, q := seats()[row.seat], asking(t, row.class)
			f := saidBy(t, q, s.who(), s.kind, map[int]string{builder: buildOf("https://example.test/builder")}[row.seat])
			seen := (&judgement{policy: &p, q: q}).evidence(f)
			if seen.Role != string(row.role) || (seen.Provenance.Builder != "") != (row.role == Builder) {
				t.Errorf("a rule sees the role %q and the provenance %+v", seen.Role, seen.Provenance)
			}
		})
	}
	p, err := Parse([]byte(court(t, -1, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	q := asking(t, plan.Archive)
	other := saidBy(t, q, seats()[builder].who(), "https://slsa.dev/provenance/v1", buildOf("https://example.test/other"))
	if seen := (&judgement{policy: &p, q: q}).evidence(other); seen.Role != "" || seen.Provenance.Builder != "" {
		t.Errorf("of provenance that names another's builder a rule sees %+v", seen)
	}
}

// TestLateEvidence changes one of kind, role, stage and time.
func TestLateEvidence(t *testing.T) {
	const kind = "https://example.test/late/v1"
	verifier := 1
	loaded := func(e entry) *Policy {
		p, err := Parse([]byte(court(t, verifier, e)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return &p
	}
	now, ended := loaded(seats()[verifier].entry()), loaded(seats()[verifier].entry().with("until", "2026-11-19"))
	q := asking(t, plan.Archive)
	for _, row := range []struct {
		name  string
		p     *Policy
		kind  string
		by    string
		stage Stage
		want  bool
	}{
		{"as it may be", now, kind, "verifier", Published, true},
		{"another kind", now, kind + "1", "verifier", Published, false},
		{"another role", now, kind, "release", Published, false},
		{"a stranger", now, kind, "stranger", Published, false},
		{"another stage", now, kind, "verifier", Staging, false},
		{"when the role had ended", ended, kind, "verifier", Published, false},
	} {
		who := identity.Identity{Issuer: "https://accounts.example.test", Subject: row.by + "@example.test", Type: identity.Email}
		if got := saidBy(t, q, who, row.kind, "").isLate(row.p, Question{Subject: "late evidence", Stage: row.stage}); got != row.want {
			t.Errorf("%s: %t, want %t", row.name, got, row.want)
		}
	}
	for _, row := range []struct {
		kind  string
		role  Role
		stage Stage
		want  bool
	}{{kind, Verifier, Published, true}, {kind + "1", Verifier, Published, false}, {kind, Release, Published, false}, {kind, Verifier, Staging, false}} {
		if got := now.AllowsLate(row.kind, row.role, row.stage); got != row.want {
			t.Errorf("%s by %s at stage %s: %t", row.kind, row.role, row.stage, got)
		}
	}
}

// TestParametersBelow: what is below a parameter is known only where any value
// of it is.
func TestParametersBelow(t *testing.T) {
	q := asking(t, plan.Archive)
	below := strings.Replace(buildOf("https://example.test/builder"), `"version": "v1.0.0"`, `"foo": {"bar": "x"}`, 1)
	for how, want := range map[string]verdict.Code{"any: true": "", "is: x": "PARAM_UNKNOWN", "oneOf: [x]": "PARAM_UNKNOWN"} {
		text := strings.Replace(court(t, -1, nil), "require:\n", "build: {types: [\"https://example.test/type\"], parameters: [{name: foo, "+how+"}]}\nrequire:\n", 1)
		p, err := Parse([]byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := answerTo(t, &p, saidBy(t, q, seats()[6].who(), "https://slsa.dev/provenance/v1", below)); got != want {
			t.Errorf("foo.bar beside {name: foo, %s}: %q, want %q", how, got, want)
		}
	}
}

// TestOwners: each kind is one role's, and what no role owns is for none.
func TestOwners(t *testing.T) {
	if Owner(kindBlob) != Release || Owner(vsa.PredicateType) != Verifier || Owner("https://example.test/late/v1") != "" {
		t.Error("a kind has another owner")
	}
}

// TestClaimOfTheVersion: a claim with {version} is that of the version in question;
// before that is known, of some version. A decision without a version accepts none:
// CERT_CLAIM.
func TestClaimOfTheVersion(t *testing.T) {
	for _, c := range []struct {
		version, ref string
		want         bool
	}{
		{"v1.0.0", "refs/tags/v1.0.0", true},
		{"v1.0.0", "refs/tags/v1.0.1", false},
		{"v1.0.0", "refs/heads/v1.0.0", false},
		{"v1.0.0", "", false},
		{"", "refs/tags/v1.0.1", true},
		{"", "refs/tags/main", false},
		{"", "refs/heads/v1.0.0", false},
		{"", "refs/tags/", false},
		{"", "", false},
	} {
		claims := identity.ClaimsOf(map[string]string{"sourceRepositoryRef": c.ref})
		s := allowedSigner{claims: map[string]string{"sourceRepositoryRef": "refs/tags/{version}"}}
		if got := s.claimed(&fact{claims: &claims}, &Question{Version: c.version}); got != c.want {
			t.Errorf("%q for the version %q: %t", c.ref, c.version, got)
		}
		if got, want := s.claimed(&fact{claims: &claims}, &Question{Version: c.version, decides: true}), c.want && c.version != ""; got != want {
			t.Errorf("%q decides about the version %q: %t", c.ref, c.version, got)
		}
	}
}
