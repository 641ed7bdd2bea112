package policy

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	declaredByRole    = "declares:\n- {requirement: source.retained, role: signoff, levels: {v0.1: 3}}\n"
	declarationOfTest = `{"sequence": 1, "requirement": "source.retained", "about": "git+https://example.test/lantern", "by": "SIG Infra", "reason": "mirrored daily", "until": "2027-06-30T00:00:00Z"}`
)

func person(name string) identity.Identity {
	return identity.Identity{Issuer: "https://accounts.example.test", Subject: name + "@example.test", Type: identity.Email}
}

// declaredIn is a signed declaration, whose subject is its file.
func declaredIn(t *testing.T, q Question, who identity.Identity, kind, predicate string) *fact {
	t.Helper()
	f := saidBy(t, q, who, kind, predicate)
	said, err := intoto.New(kind, []intoto.Subject{{Name: "retained.yaml", Digests: digest.SetOf([]byte("retained"))}}, json.RawMessage(predicate))
	if err != nil {
		t.Fatal(err)
	}
	f.said = said
	return f
}

// TestSignedDeclarations: a signed declaration counts if the policy lets the role
// of its signer declare the requirement, it is about what provenance names, and
// neither lasts too long nor has ended. Each row changes one fact of the first.
func TestSignedDeclarations(t *testing.T) {
	text := strings.Replace(court(t, -1, nil), "summaries:\n", declaredByRole+"summaries:\n", 1)
	p, err := Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, who, kind, old, new string
		at                        time.Time
		why                       string
	}{
		{"as it must be", "signoff", "", "", "", time.Time{}, `declared by "SIG Infra" until 2027-06-30T00:00:00Z, signed by "signoff@example.test (email, issuer https://accounts.example.test)": "mirrored daily" (counts up to v0.1=3)`},
		{"none", "", "", "", "", time.Time{}, "missing: a declaration signed in the role signoff (--declaration FILE)"},
		{"by the policy's officer", "policy", "", "", "", time.Time{}, "missing: a declaration that counts; signed by the policy identity, want the signoff identity"},
		{"by the release identity", "release", "", "", "", time.Time{}, "missing: a declaration that counts; signed by the release identity, want the signoff identity"},
		{"by the builder", "builder", "", "", "", time.Time{}, "missing: a declaration that counts; signed by the builder identity, want the signoff identity"},
		{"by a stranger", "mallory", "", "", "", time.Time{}, "missing: a declaration that counts; the signer is not listed in the policy"},
		{"another kind", "signoff", "https://example.test/other", "", "", time.Time{}, "missing: a declaration signed in the role signoff (--declaration FILE)"},
		{"another repository", "signoff", "", "/lantern", "/lantern-fork", time.Time{}, `missing: a declaration about the repository "git+https://example.test/lantern", which the provenance names; that of "SIG Infra" is about "git+https://example.test/lantern-fork"`},
		{"another requirement", "signoff", "", "source.retained", "source.retained-indefinitely", time.Time{}, "missing: a declaration signed in the role signoff (--declaration FILE)"},
		{"no requirement", "signoff", "", "source.retained", "source.retain", time.Time{}, "missing: a declaration signed in the role signoff (--declaration FILE)"},
		{"for too long", "signoff", "", "2027-06-30", "2027-12-30", time.Time{}, "missing: a declaration that counts; the declaration lasts longer than 366 days from its signature"},
		{"the second before its end", "signoff", "", "", "", time.Date(2027, 6, 29, 23, 59, 59, 0, time.UTC), "declared by"},
		{"at its end", "signoff", "", "", "", time.Date(2027, 6, 30, 0, 0, 0, 0, time.UTC), `missing: a declaration that has not ended; that of "SIG Infra" ended at 2027-06-30T00:00:00Z`},
		{"without end", "signoff", "", `, "until": "2027-06-30T00:00:00Z"`, "", time.Time{}, "missing: a declaration signed in the role signoff (--declaration FILE)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := asking(t, plan.Archive)
			if !row.at.IsZero() {
				q.At = row.at
			}
			f := saidBy(t, q, person("builder"), "https://slsa.dev/provenance/v1", buildOf("https://example.test/builder"))
			m := &judgement{policy: &p, q: q, facts: []*fact{f}}
			if row.who != "" {
				if row.kind == "" {
					row.kind = declaration.PredicateType
				}
				m.sources = []sourceEvidence{{fact: declaredIn(t, q, person(row.who), row.kind, strings.Replace(declarationOfTest, row.old, row.new, 1))}}
			}
			report, err := f.level(m)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.On(slsa.V01).Requirements {
				if r.ID == "source.retained" && (!strings.HasPrefix(r.Why, row.why) || (r.State == "declared") != strings.HasPrefix(row.why, "declared")) {
					t.Errorf("%s: %s, want %s", r.State, r.Why, row.why)
				}
			}
		})
	}
	if _, err := declaring(&p, "common.access"); verdict.FindingOf("", err).Code != verdict.IdentityRole || !strings.Contains(err.Error(), `"every-place" lets no role declare "common.access"`) {
		t.Errorf("a requirement without a row: %v", err)
	}
	if all := explainSources(p); !strings.Contains(strings.Join(all.Lines, "\n"), "source.retained can be declared in a file signed in the role signoff, for at most 366 days, and counts up to v0.1=3") {
		t.Errorf("%q", all.Lines)
	}
	if _, err := Parse([]byte(regexp.MustCompile(`(?m)^  signoff: .*\n`).ReplaceAllString(text, "")), nil); err == nil || !strings.Contains(err.Error(), "with identities in roles") {
		t.Errorf("a role without identities: %v", err)
	}
}

// TestNewestDeclaration: a declaration replaces those of lower numbers about the
// same, if it is signed in the role, in any order of the files.
func TestNewestDeclaration(t *testing.T) {
	p, err := Parse([]byte(strings.Replace(court(t, -1, nil), "summaries:\n", declaredByRole+"summaries:\n", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	q := asking(t, plan.Archive)
	ended := func(who string, change ...string) *fact {
		change = append(change, `"sequence": 1`, `"sequence": 2`, "2027-06-30", "2026-01-01")
		return declaredIn(t, q, person(who), declaration.PredicateType, strings.NewReplacer(change...).Replace(declarationOfTest))
	}
	first := declaredIn(t, q, person("signoff"), declaration.PredicateType, declarationOfTest)
	for name, row := range map[string]struct {
		other *fact
		why   string
	}{
		"an end before":       {ended("signoff"), ""},
		"of a stranger":       {ended("mallory"), "declared by"},
		"of the release role": {ended("release"), "declared by"},
		"about another":       {ended("signoff", "/lantern", "/lantern-fork"), "declared by"},
		"of the same number":  {ended("signoff", `"sequence": 1`, `"sequence": 1`), "declared by"},
	} {
		for _, order := range [][]*fact{{first, row.other}, {row.other, first}} {
			f := saidBy(t, q, person("builder"), "https://slsa.dev/provenance/v1", buildOf("https://example.test/builder"))
			m := &judgement{policy: &p, q: q, facts: []*fact{f}, sources: []sourceEvidence{{fact: order[0]}, {fact: order[1]}}}
			report, err := f.level(m)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.On(slsa.V01).Requirements {
				if r.ID == "source.retained" && ((r.State == "declared") != (row.why != "") || !strings.HasPrefix(r.Why, row.why)) {
					t.Errorf("%s: %s: %s", name, r.State, r.Why)
				}
			}
		}
	}
}

// TestSourceSummariesAge: a summary counts until the age that the policy allows.
func TestSourceSummariesAge(t *testing.T) {
	for age, code := range map[string]verdict.Code{"": "", "maxAge: 1h, ": "", "maxAge: 59m59s, ": verdict.VSAStale} {
		p, err := Parse([]byte(strings.Replace(court(t, -1, nil), "levels: {source: 3}, ", "levels: {source: 3}, "+age, 1)), nil)
		if err != nil {
			t.Fatal(err)
		}
		q := asking(t, plan.Archive)
		q.At = time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC) // an hour after the summary
		_, err = (&judgement{policy: &p, q: q}).sourceSummary(saidBy(t, q, person("source"), vsa.PredicateType, sourceSummaryOfTest))
		if verdict.FindingOf("", err).Code != code && (err != nil || code != "") {
			t.Errorf("%q: %v, want %q", age, err, code)
		}
		if says := strings.Contains(strings.Join(explainSources(p).Lines, ""), "which count for "); says != (age != "") {
			t.Errorf("%q: %q", age, explainSources(p).Lines)
		}
	}
}

// TestNotImplementableIsExplained: it needs no end and no level.
func TestNotImplementableIsExplained(t *testing.T) {
	row := "declares:\n- {requirement: build.hermetic, notImplementable: true, by: SIG Release, reason: the builds need a network}\n"
	p, err := Parse([]byte(strings.Replace(court(t, -1, nil), "summaries:\n", row+"summaries:\n", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if all := explainSources(p); !strings.Contains(strings.Join(all.Lines, "\n"), "build.hermetic is not implementable, says SIG Release, and counts towards no level: the builds need a network") {
		t.Errorf("%q", all.Lines)
	}
}
