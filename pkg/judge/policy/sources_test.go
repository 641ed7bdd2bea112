package policy

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var lineAndColumn = regexp.MustCompile(` at \d+:\d+: `)

const declared = "declares:\n- {requirement: source.retained, by: SIG Release, until: \"2027-06-30\", reason: mirrored daily, levels: {v0.1: 3}}\n"

// TestLevelKeysLoadStrictly: each change of sources, declares and levels that
// asks less than it seems to does not load; a twin that differs in the same
// place does.
func TestLevelKeysLoadStrictly(t *testing.T) {
	base := strings.Replace(court(t, -1, nil), "summaries:\n", declared+"summaries:\n", 1)
	base = strings.Replace(base, "  checks: {provenance: require, signature: \"off\", sbom: \"off\"}\n", "  checks: {provenance: require, signature: \"off\", sbom: \"off\"}\n  levels: {v0.1: 3}\n", 1)
	const entry = `{requirement: source.retained, by: SIG Release, until: "2027-06-30", reason: mirrored daily, levels: {v0.1: 3}}`
	const signed, excused = "{requirement: source.retained, role: policy, levels: {v0.1: 3}}", "{requirement: build.hermetic, notImplementable: true, by: SIG Release, reason: the builds need a network}"
	const gate = "verifier: https://verifier.example.test/gate\n  signers: [{\"issuer\":\"https://accounts.example.test\","
	for _, row := range []struct {
		name, old, new, twin string
		code                 verdict.Code
		says                 string
	}{
		{"no source", `- {id: "https://verifier.example.test/source", levels: {source: 3}, signers: [{"issuer":"https://accounts.example.test","subject":"source@example.test","type":"email"}]}`, "  []", `- {id: "https://verifier.example.test/code", levels: {source: 3}, signers: [{"issuer":"https://accounts.example.test","subject":"source@example.test","type":"email"}]}`, verdict.PolicyEmpty, "sources: empty"},
		{"a source without id", `id: "https://verifier.example.test/source", `, "", `id: "https://verifier.example.test/code", `, verdict.ConfigParse, "id"},
		{"a source without level", "levels: {source: 3}, ", "", "levels: {source: 1}, ", verdict.PolicyEmpty, "levels"},
		{"a source of level 5", "{source: 3}", "{source: 5}", "{source: 4}", verdict.ConfigParse, "5, want 1 to 4"},
		{"a source of level 0", "{source: 3}", "{source: 0}", "{source: 1}", verdict.ConfigParse, "0, want 1 to 4"},
		{"a source of another track", "{source: 3}", "{build: 3}", "{source: 2}", verdict.ConfigParse, "unknown track"},
		{"a source that the verifier signs for", "source@example.test", "verifier@example.test", "code@example.test", verdict.PolicyWeak, "each needs its own identity"},
		{"a source that a builder signs for", "source@example.test", "builder@example.test", "code@example.test", verdict.PolicyWeak, "each needs its own identity"},
		{"a verifier that another role signs for", gate + `"subject":"verifier@example.test"`, gate + `"subject":"release@example.test"`, gate + `"from":"2026-01-01","subject":"verifier@example.test"`, verdict.ConfigParse, "is not an exact identity of the role verifier"},
		{"a verifier that a pattern signs for", gate + `"subject":"verifier@example.test"`, gate + `"pattern":"verifier@example\\.test"`, gate + `"from":"2026-01-01","subject":"verifier@example.test"`, verdict.ConfigParse, "is not an exact identity of the role verifier"},
		{"no declaration", "- " + entry, "  []", "- " + strings.Replace(entry, "daily", "hourly", 1), verdict.PolicyEmpty, "declares"},
		{"what a program checks", "source.retained", "build.hermetic", "source.retained", verdict.ConfigParse, `"build.hermetic" cannot be declared`},
		{"what there is not", "source.retained", "source.retain", "source.retained", verdict.ConfigParse, "cannot be declared"},
		{"a declaration twice", entry, entry + "\n- " + entry, entry + "\n- " + strings.NewReplacer("source.retained", "common.access", "v0.1: 3", "v0.1: 4").Replace(entry), verdict.ConfigParse, "twice"},
		{"a declaration by nobody", "by: SIG Release, ", "", "by: SIG Security, ", verdict.PolicyEmpty, "want by, reason and until"},
		{"a declaration without reason", "reason: mirrored daily, ", "", "reason: mirrored hourly, ", verdict.PolicyEmpty, "want by, reason and until"},
		{"a declaration without end", `until: "2027-06-30", `, "", `until: "2027-06-29", `, verdict.PolicyEmpty, "want by, reason and until"},
		{"an end that is no time", "2027-06-30", "soon", "2027-06-30T00:00:00Z", verdict.ConfigParse, "want a time"},
		{"a declaration without level", ", levels: {v0.1: 3}}", "}", ", levels: {v0.1: 4}}", verdict.PolicyEmpty, "levels"},
		{"a level that it cannot reach", "levels: {v0.1: 3}}", "levels: {v0.1: 2}}", "levels: {v0.1: 4}}", verdict.ConfigParse, "up to level 2, want 3 to 4"},
		{"a level of another track", "levels: {v0.1: 3}}", "levels: {build: 3}}", "levels: {v0.1: 3}}", verdict.ConfigParse, "unknown track"},
		{"an unknown key", "by: SIG Release", "by: SIG Release, roles: policy", "by: SIG Release", verdict.ConfigParse, "roles"},
		{"a role beside a declaration of the policy", "by: SIG Release", "by: SIG Release, role: policy", "by: SIG Release", verdict.ConfigParse, "with role, the signed file says by, reason and until"},
		{"a role that signs artifacts", entry, "{requirement: source.retained, role: release, levels: {v0.1: 3}}", signed, verdict.ConfigParse, `"release", want policy or signoff`},
		{"a role that there is not", entry, "{requirement: source.retained, role: builder, levels: {v0.1: 3}}", signed, verdict.ConfigParse, `"builder", want policy or signoff`},
		{"a role without levels", entry, "{requirement: source.retained, role: policy}", signed, verdict.PolicyEmpty, "levels"},
		{"a role for what a program checks", entry, strings.Replace(signed, "source.retained", "build.hermetic", 1), signed, verdict.ConfigParse, `"build.hermetic" cannot be declared`},
		{"not implementable, and an end", entry, strings.Replace(excused, "}", `, until: "2027-06-30"}`, 1), excused, verdict.ConfigParse, "counts towards no level"},
		{"not implementable, and a level", entry, strings.Replace(excused, "}", ", levels: {v0.1: 4}}", 1), excused, verdict.ConfigParse, "counts towards no level"},
		{"not implementable, and a role", entry, "{requirement: build.hermetic, notImplementable: true, role: policy}", excused, verdict.ConfigParse, "leave them and notImplementable out"},
		{"not implementable, says nobody", entry, strings.Replace(excused, "by: SIG Release, ", "", 1), excused, verdict.PolicyEmpty, "want by and reason"},
		{"not implementable without reason", entry, strings.Replace(excused, ", reason: the builds need a network", "", 1), excused, verdict.PolicyEmpty, "want by and reason"},
		{"not implementable, of another track", entry, strings.Replace(excused, "build.hermetic", "source.level-1", 1), excused, verdict.ConfigParse, `"source.level-1" is no requirement of v0.1`},
		{"an age that is none", "levels: {source: 3}, ", "levels: {source: 3}, maxAge: soon, ", "levels: {source: 3}, maxAge: 720h, ", verdict.ConfigParse, "want a duration"},
		{"a required level of no track", "levels: {v0.1: 3}\n", "levels: {}\n", "levels: {v0.1: 3}\n", verdict.PolicyEmpty, "empty"},
		{"a required level of the Build track", "levels: {v0.1: 3}\n", "levels: {build: 3}\n", "levels: {source: 2}\n", verdict.ConfigParse, "level is the level of the Build track"},
		{"a required level 5", "levels: {v0.1: 3}\n", "levels: {v0.1: 5}\n", "levels: {v0.1: 4}\n", verdict.ConfigParse, "5, want 1 to 4"},
		{
			"a required level of provenance that is not", `{provenance: require, signature: "off", sbom: "off"}`, `{provenance: warn, signature: require, sbom: "off"}`,
			`{provenance: require, signature: require, sbom: "off"}`, verdict.PolicyWeak, "which is not required",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if !strings.Contains(base, row.old) {
				t.Fatalf("%q is not in the policy", row.old)
			}
			if _, err := Parse([]byte(strings.Replace(base, row.old, row.twin, 1)), nil); err != nil {
				t.Errorf("the twin: %v", err)
			}
			_, err := Parse([]byte(strings.Replace(base, row.old, row.new, 1)), nil)
			if f := verdict.FindingOf("", err); err == nil || f.Code != row.code || !strings.Contains(err.Error(), row.says) || !lineAndColumn.MatchString(err.Error()) {
				t.Errorf("%v, want %s %q with line and column", err, row.code, row.says)
			}
		})
	}
}

// TestSourcesWithoutBuilders: without provenance no revision is named, so sources
// and declarations would ask for nothing.
func TestSourcesWithoutBuilders(t *testing.T) {
	raw, err := os.ReadFile("testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for part, says := range map[string]string{
		"sources: [{id: https://verifier.example.test/source, levels: {source: 3}, signers: [{issuer: https://accounts.example.test, subject: source@example.test, type: email}]}]\n": "remove sources",
		declared: "remove declares",
	} {
		text := string(raw) + part
		if _, err := Parse([]byte(text), nil); err != nil {
			t.Errorf("the twin: %v", err)
		}
		from, to := strings.Index(text, "builders:\n"), strings.Index(text, "require:\n")
		text = strings.NewReplacer("provenance: require", `provenance: "off"`, "source: {repository: \"https://example.test/lantern\"}\n", "").Replace(text[:from] + text[to:])
		if _, err := Parse([]byte(text), nil); err == nil || verdict.FindingOf("", err).Code != verdict.PolicyEmpty || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want POLICY_EMPTY and %q", err, says)
		}
	}
}

const sourceSummaryOfTest = `{"verifier": {"id": "https://verifier.example.test/source"}, "timeVerified": "2026-11-19T11:00:00Z",
"resourceUri": "git+https://example.test/lantern", "policy": {"uri": "https://example.test/policy", "digest": {"sha256": "0000000000000000000000000000000000000000000000000000000000000001"}},
"verificationResult": "PASSED", "verifiedLevels": ["SLSA_SOURCE_LEVEL_3"], "slsaVersion": "1.2"}`

// TestSourceSummary: a summary of the source counts if its signer is listed for
// its verifier, and its time has passed.
func TestSourceSummary(t *testing.T) {
	p, err := Parse([]byte(court(t, -1, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &judgement{policy: &p, q: asking(t, plan.Archive)}
	at := func(name string) identity.Identity {
		return identity.Identity{Issuer: "https://accounts.example.test", Subject: name + "@example.test", Type: identity.Email}
	}
	for _, row := range []struct {
		name, who, kind, old, new string
		code                      verdict.Code
	}{
		{"as it must be", "source", vsa.PredicateType, "", "", ""},
		{"by the verifier of artifacts", "verifier", vsa.PredicateType, "", "", verdict.IdentityRole},
		{"by a builder", "builder", vsa.PredicateType, "", "", verdict.IdentityRole},
		{"by a stranger", "mallory", vsa.PredicateType, "", "", verdict.Identity},
		{"another kind", "source", "https://example.test/other", "", "", verdict.PredicateType},
		{"for another verifier", "source", vsa.PredicateType, "test/source", "test/other", verdict.VSAVerifier},
		{"from the future", "source", vsa.PredicateType, "T11:", "T14:", verdict.VSAStale},
	} {
		_, err := m.sourceSummary(saidBy(t, m.q, at(row.who), row.kind, strings.Replace(sourceSummaryOfTest, row.old, row.new, 1)))
		if (err == nil) != (row.code == "") || err != nil && verdict.FindingOf("", err).Code != row.code {
			t.Errorf("%s: %v, want %q", row.name, err, row.code)
		}
	}
}

// TestDeclarationsEnd: a declaration counts until its end, and not at it.
func TestDeclarationsEnd(t *testing.T) {
	p, err := Parse([]byte(strings.Replace(court(t, -1, nil), "summaries:\n", declared+"summaries:\n", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2027, 6, 30, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		end.Add(-time.Second): `declared by "SIG Release" until 2027-06-30T00:00:00Z: "mirrored daily" (counts up to v0.1=3)`,
		end:                   `missing: a declaration of the policy; that of "SIG Release" ended at 2027-06-30T00:00:00Z`,
	} {
		q := asking(t, plan.Archive)
		q.At = at
		f := saidBy(t, q, identity.Identity{Issuer: "https://accounts.example.test", Subject: "builder@example.test", Type: identity.Email},
			"https://slsa.dev/provenance/v1", buildOf("https://example.test/builder"))
		m := &judgement{policy: &p, q: q, facts: []*fact{f}}
		report, err := f.level(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.On(slsa.V01).Requirements {
			if r.ID == "source.retained" && r.Why != want {
				t.Errorf("at %s: %s, want %s", at, r.Why, want)
			}
		}
	}
	if all := explainSources(p); len(all.Lines) != 2 || !strings.Contains(all.Lines[1], "SIG Release until 2027-06-30, and counts up to v0.1=3: mirrored daily") {
		t.Errorf("%q", all.Lines)
	}
}
