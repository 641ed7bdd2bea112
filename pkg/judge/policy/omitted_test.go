package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestCompleteSBOM: an SBOM that says that it leaves something out is one where
// SBOMs are required, and is none where they are to be complete.
func TestCompleteSBOM(t *testing.T) {
	asking := func(mode string) policy.Policy {
		t.Helper()
		p, err := policy.Parse([]byte(strings.Replace(text(t), "sbom: require", "sbom: "+mode, 1)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	finds := func(p policy.Policy, omitted ...string) (codes []verdict.Code) {
		q := question()
		q.SBOM, q.Omitted = q.Bytes.SHA256, omitted
		for _, f := range p.Decide(nil, q).Findings {
			if f.Code != verdict.NoProvenance && f.Code != verdict.Unsigned { // nothing else came with it
				codes = append(codes, f.Code)
			}
		}
		return codes
	}
	if got := finds(asking("complete"), "not examined: inner.tar.gz: cut short"); len(got) != 1 || got[0] != verdict.SBOMIncomplete {
		t.Errorf("left out, where all is asked for: %v", got)
	}
	if got := finds(asking("complete")); len(got) != 0 {
		t.Errorf("the twin that leaves nothing out: %v", got)
	}
	if got := finds(asking("require"), "not examined: inner.tar.gz: cut short"); len(got) != 0 {
		t.Errorf("the twin that asks for an SBOM only: %v", got)
	}
	if got := asking("complete").Asks(policy.Published, question().Class, policy.SBOM); got != policy.Require {
		t.Errorf("complete counts as %q", got)
	}
	refused(t, strings.Replace(text(t), "signature: require, sbom", "signature: complete, sbom", 1), "complete")
}

const rebuiltOnce = "rebuilt: {atLeast: 1, stages: [staging], of: [{id: \"https://example.test/rebuilder\", signers: [{issuer: \"https://accounts.example.test\", subject: rebuilder@example.test, type: email}]}]}\n"

// TestRebuilt: at the stages of rebuilt, and there alone, an artifact that is
// built needs the statements of rebuilders.
func TestRebuilt(t *testing.T) {
	p, err := policy.Parse([]byte(text(t)+rebuiltOnce), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		stage policy.Stage
		class plan.Class
		want  bool
	}{{policy.Staging, plan.Binary, true}, {policy.Published, plan.Binary, false}, {policy.Staging, plan.Sums, false}} {
		q := question()
		q.Stage, q.Class = row.stage, row.class
		if got := strings.Contains(fmt.Sprint(p.Decide(nil, q).Findings), "rebuilder"); got != row.want {
			t.Errorf("%s at stage %s: missed is %t, want %t", row.class, row.stage, got, row.want)
		}
	}
}

// TestProfiledSBOM: where a profile is demanded, an SBOM that lacks an element,
// or was not compared with it, is none.
func TestProfiledSBOM(t *testing.T) {
	p, err := policy.Parse([]byte(strings.Replace(text(t), "sbom: require}", "sbom: require}\n  profile: cisa-2026", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		lacks map[string][]string
		want  int
	}{
		{map[string][]string{"cisa-2026": nil}, 0},
		{map[string][]string{"cisa-2026": {"supplier: missing in 1 of 2 packages"}}, 1},
		{map[string][]string{"bsi-2.1": nil}, 1},
		{nil, 1},
	} {
		q, n := question(), 0
		q.SBOM, q.Lacks = q.Bytes.SHA256, row.lacks
		for _, f := range p.Decide(nil, q).Findings {
			if f.Code == "SBOM_PROFILE" {
				n++
			}
		}
		if n != row.want {
			t.Errorf("%v: %d findings", row.lacks, n)
		}
	}
	if _, profile := p.SBOMs(policy.Published, question().Class); profile != "cisa-2026" {
		t.Errorf("it demands %q", profile)
	}
	refused(t, strings.Replace(text(t), "sbom: require}", "sbom: require}\n  profile: cisa", 1), "want cisa-2026 or bsi-2.1")
	refused(t, strings.Replace(text(t), "sbom: require}", "sbom: warn}\n  profile: cisa-2026", 1), "not required")
}
