package policy_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestQuestionsOfNothing: a question names an artifact, its bytes and a time.
func TestQuestionsOfNothing(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*policy.Question)
		code verdict.Code // that stands alone where the question is none
	}{
		{"whole", func(*policy.Question) {}, ""},
		{"by sha256 alone", func(q *policy.Question) { q.Bytes.SHA512 = digest.Digest{} }, ""},
		{"no bytes", func(q *policy.Question) { q.Bytes = digest.Set{} }, verdict.NoArtifact},
		{"no subject", func(q *policy.Question) { q.Subject = "" }, verdict.NoArtifact},
		{"no time", func(q *policy.Question) { q.At = time.Time{} }, verdict.Usage},
	} {
		q := question()
		row.edit(&q)
		v := load(t).Decide(nil, q)
		is := v.Err() != nil && len(v.Findings) == 1 && v.Findings[0].Code == row.code
		if v.Err() == nil || is != (row.code != "") {
			t.Errorf("%s: %v, want %q", row.name, v.Findings, row.code)
		}
	}
}

// TestParseRefusesEmptyAndTwice: what is written twice, or says nothing, does
// not load; with one value it does.
func TestParseRefusesEmptyAndTwice(t *testing.T) {
	const release, planned = "subject: release@example.test", "plan: require\n"
	for _, row := range []struct{ name, old, loads, not, says string }{
		{"a stage of a signer twice", release, release + ", stages: [release]", release + ", stages: [release, release]", "twice"},
		{"a claim that says nothing", release, release + `, claims: {sourceRepositoryRef: refs/heads/main}`, release + `, claims: {sourceRepositoryRef: ""}`, "empty"},
		{
			"a claim with another placeholder", release, release + `, claims: {sourceRepositoryRef: "refs/tags/{version}"}`,
			release + `, claims: {sourceRepositoryRef: "refs/tags/{ref}"}`, "placeholder",
		},
		{
			"a level of SBOMs", planned, "- {stages: [release], classes: [sbom], checks: {signature: require}}\n" + planned,
			"- {stages: [release], classes: [sbom], checks: {signature: require}, level: 1}\n" + planned, "comes from provenance",
		},
		{
			"provenance of SBOMs", planned, "- {stages: [release], classes: [sbom], checks: {signature: warn}}\n" + planned,
			"- {stages: [release], classes: [sbom], checks: {signature: require, provenance: require}}\n" + planned, "not a check for sbom",
		},
		{
			"SBOMs of which nothing is asked", planned, "- {stages: [staging, release], classes: [sbom], checks: {signature: require}}\n" + planned,
			"- {stages: [staging, release], classes: [sbom], checks: {signature: \"off\"}}\n" + planned, "all checks of sbom are off",
		},
		{"a signer of evidence that is not judged", release, release + ", classes: [sbom]", release + ", classes: [provenance]", "not one of"},
		{"a versioned tag that is no version", "lantern\"}", "lantern\", versionedTag: v14.2}", "lantern\", versionedTag: \"14\"}", "such as v14"},
		{"a versioned tag beside a ref", "lantern\"}", "lantern\", versionedTag: v14}", "lantern\", versionedTag: v14, ref: refs/heads/main}", "no ref beside it"},
		{"limits of nothing", planned, planned + "limits: {manifest: 720h}\n", planned + "limits: {}\n", "empty"},
		{
			"a stage of late evidence twice", planned, planned + "late: [{predicate: x, role: verifier, stages: [release]}]\n",
			planned + "late: [{predicate: x, role: verifier, stages: [release, release]}]\n", "twice",
		},
		{
			"provenance as late evidence of its builder", planned, planned + "late: [{predicate: https://slsa.dev/provenance/v1, role: verifier, stages: [release]}]\n",
			planned + "late: [{predicate: https://slsa.dev/provenance/v1, role: builder, stages: [release]}]\n", "builder only for what is no provenance",
		},
		{
			"late evidence at a stage that is none", planned, planned + "late: [{predicate: x, role: verifier, stages: [staging]}]\n",
			planned + "late: [{predicate: x, role: verifier, stages: [dream]}]\n", "dream",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := policy.Parse([]byte(strings.Replace(text(t), row.old, row.loads, 1)), nil); err != nil {
				t.Errorf("the twin: %v", err)
			}
			refused(t, strings.Replace(text(t), row.old, row.not, 1), row.says)
		})
	}
}

// TestNothingSwitched: a feature that switches provenance needs provenance that
// is required.
func TestNothingSwitched(t *testing.T) {
	const feature = "features: {RequireProvenance: {floor: \"off\"}}\n"
	required := withFeatures(t, reconciler, feature)
	if _, err := policy.Parse([]byte(required), nil); err != nil {
		t.Errorf("the twin: %v", err)
	}
	refused(t, strings.ReplaceAll(required, "provenance: require", "provenance: warn"), "no provenance that could be switched")
}

// TestCasesThatRefuseAll: an archive in which nothing is accepted rehearses
// nothing, whatever the policy says of its cases.
func TestCasesThatRefuseAll(t *testing.T) {
	raw, err := os.ReadFile("testdata/signoff.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.ParseCases(raw); err != nil {
		t.Errorf("the twin: %v", err)
	}
	never := strings.ReplaceAll(string(raw), "want: [accepted]", "want: [SIGNOFF_MISSING]")
	_, err = policy.ParseCases([]byte(never))
	if err == nil || verdict.FindingOf("", err).Code != verdict.ConfigParse || !strings.Contains(err.Error(), "no case is accepted") {
		t.Errorf("nothing accepted: %v", err)
	}
}

// TestCasesOutOfOrder: an archive begins with refusals, and a case can only change
// what is in the case that it copies.
func TestCasesOutOfOrder(t *testing.T) {
	const last, refusal = "-- last --\nwant: [accepted]\nask: {stage: release}\n", "-- first --\nwant: [UNSIGNED]\n"
	for name, row := range map[string]struct{ archive, says string }{
		"in order":               {refusal + "like: last\nset: {ask.class: image}\n" + last, ""},
		"no refusal":             {last, "put refusals first"},
		"sets what is in no map": {refusal + "like: last\nset: {asks.class: image}\n" + last, `no object "asks"`},
		"drops it":               {refusal + "like: last\nwithout: [asks.stage]\n" + last, `no object "asks"`},
		"drops what is not":      {refusal + "like: last\nwithout: [ask.class]\n" + last, `no field "class"`},
	} {
		_, err := policy.ParseCases([]byte(row.archive))
		if row.says == "" && err == nil {
			continue
		}
		if err == nil || row.says == "" || verdict.FindingOf("", err).Code != verdict.ConfigParse || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", name, err, row.says)
		}
	}
}

// TestSBOMRow: a row for SBOMs is optional, and asks for the signed list alone.
// A warning is something that the policy lacks.
func TestSBOMRow(t *testing.T) {
	for mode, want := range map[string]struct {
		asks  policy.Mode
		lacks bool
	}{"": {policy.Off, false}, "require": {policy.Require, false}, "warn": {policy.Warn, true}} {
		row := ""
		if mode != "" {
			row = "- {stages: [staging, release], classes: [sbom], checks: {signature: " + mode + "}}\n"
		}
		p, err := policy.Parse([]byte(strings.Replace(text(t), "plan: require\n", row+"plan: require\n", 1)), nil)
		if err != nil {
			t.Fatal(err)
		}
		lacks := slices.Contains(p.Lacks(policy.Published, []plan.Class{plan.SBOM}), "signature of sbom")
		if got := p.Asks(policy.Published, plan.SBOM, policy.Signature); got != want.asks || lacks != want.lacks {
			t.Errorf("%q: asks %s, lacks %t", mode, got, lacks)
		}
	}
}

// TestParseRefusesToday: what only a policy of what is published today needs, in
// the one form that is allowed, and in those that are not. Each row edits the
// shipped policy once.
func TestParseRefusesToday(t *testing.T) {
	raw, err := os.ReadFile("../../../policies/kubernetes-today.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Parse(raw, nil); err != nil {
		t.Fatal(err)
	}
	const shares, images = "  sharesRelease: true # the account that signs the files signs in the same job\n", "checks: {provenance: if-present, signature: require, sbom: \"off\", summary: if-present}"
	for _, row := range []struct{ name, old, not, says string }{
		{"an identity in two roles that nobody says is shared", shares, "", "each needs its own identity"},
		{"a shared identity above level 2", "level: 2\n" + shares, "level: 3\n" + shares, "not kept apart from the build"},
		{
			"an identity shared with a verifier", "promoter-summaries@k8s-releng-prod.iam.gserviceaccount.com\n    type: email\n",
			"krel-staging@k8s-releng-prod.iam.gserviceaccount.com\n    type: email\n", "each needs its own identity",
		},
		{"a signature that need not be there", images, "checks: {provenance: if-present, signature: if-present, sbom: \"off\", summary: if-present}", "want require, warn or off"},
		{"an SBOM that need not be there", images, "checks: {provenance: if-present, signature: require, sbom: if-present, summary: if-present}", "want require, warn or off"},
		{"nothing that must be there", images, "checks: {provenance: if-present, signature: warn, sbom: \"off\", summary: if-present}", "nothing is required of image"},
		{"a policy by digest and at any commit", "commit: any", "commit: any\n    sha256: " + strings.Repeat("a", 64), "want any and no sha256"},
		{"a policy at a named commit", "commit: any", "commit: main", "want any and no sha256"},
		{"a policy that is not pinned at all", "    commit: any # the summary names it\n", "", "digest"},
		{"a pinned policy without levels", "commit: any", "sha256: " + strings.Repeat("a", 64), "duration"},
		{"an age that is none", "commit: any # the summary names it\n", "commit: any\n  maxAge: soon\n", "soon"},
		{"any other parameter that must be there", "any: true, optional: true}", "any: true}", "any: true and optional: true"},
		{"any other parameter with a value", "any: true, optional: true}", "is: x, optional: true}", "any: true and optional: true"},
		{"any other parameter from a builder of level 3", "builders:\n", "builders:\n- {id: \"https://other.example.test\", level: 3, signers: [{issuer: \"https://accounts.google.com\", subject: other@example.test, type: email}]}\n", "parameters that the policy does not list"},
		{"an unknown placeholder", "registry.k8s.io/{image}", "registry.k8s.io/{name}", "placeholder"},
		{"provenance as late evidence of a builder", "https://openvex.dev/ns,", "https://slsa.dev/provenance/v1,", "builder only for what is no provenance"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if !strings.Contains(string(raw), row.old) {
				t.Fatalf("the policy has no %q", row.old)
			}
			refused(t, strings.Replace(string(raw), row.old, row.not, 1), row.says)
		})
	}
}

// TestWeakHasAnActForEachCause: a policy that accepts too much does so for three
// reasons, and the act fits the reason.
func TestWeakHasAnActForEachCause(t *testing.T) {
	raw, err := os.ReadFile("../../../policies/kubernetes-today.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const shares = "  sharesRelease: true # the account that signs the files signs in the same job\n"
	for _, row := range []struct{ old, not, act string }{
		{shares, "", "use another identity for one of the two"},
		{"level: 2\n" + shares, "level: 3\n" + shares, "change the value at the line named"},
		{"subject: krel-staging@k8s-releng-prod.iam.gserviceaccount.com", "pattern: \".*\"", "name exactly who must have signed"},
	} {
		edited := strings.Replace(string(raw), row.old, row.not, 1)
		_, err := policy.Parse([]byte(edited), nil)
		f := verdict.FindingOf("", err)
		if edited == string(raw) || f.Code != verdict.PolicyWeak || !strings.HasPrefix(f.Fix, row.act) {
			t.Errorf("%q for %q: %s, act %q, want %q", row.not, row.old, f.Code, f.Fix, row.act)
		}
	}
}

// TestAnyCommitReplacesNothing: a summary by a policy at any commit replaces no
// provenance.
func TestAnyCommitReplacesNothing(t *testing.T) {
	raw, err := os.ReadFile("../../../policies/kubernetes-today.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Vouching(); verdict.FindingOf("", err).Code != verdict.Usage {
		t.Errorf("%v", err)
	}
}

// TestRoleVEX: the role vex has identities of its own, and signs nothing else
// late.
func TestRoleVEX(t *testing.T) {
	with := func(who, predicate string) string {
		made := strings.Replace(text(t), "roles:\n", "roles:\n  vex: [{issuer: \"https://accounts.example.test\", subject: "+who+"@example.test, type: email}]\n", 1)
		return strings.Replace(made, "plan: require\n", "plan: require\nlate: [{predicate: \""+predicate+"\", role: vex, stages: [release]}]\n", 1)
	}
	if _, err := policy.Parse([]byte(with("vex", openvex.PredicateType)), nil); err != nil {
		t.Fatalf("the twin: %v", err)
	}
	for _, who := range []string{"release", "builder", "verifier", "officer"} {
		refused(t, with(who, openvex.PredicateType), "each needs its own identity")
	}
	refused(t, with("vex", "https://slsa.dev/verification_summary/v1"), "vex only for OpenVEX")
	refused(t, strings.Replace(with("vex", openvex.PredicateType), "  vex: [", "  vexed: [", 1), "unknown role")
}
