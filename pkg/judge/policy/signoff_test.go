package policy_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	signer   = "  signoff:\n  - {issuer: \"https://accounts.example.test\", subject: signoff@example.test, type: email}\n"
	demanded = "signoff: {stages: [staging], maxAge: 720h}\n"
)

// withSignoff is the valid policy with more.
func withSignoff(t testing.TB, roles, field string) string {
	t.Helper()
	return strings.Replace(text(t), "roles:\n", "roles:\n"+roles, 1) + field
}

// TestSignoffLoads: who asks for a sign-off says of whom, and where.
func TestSignoffLoads(t *testing.T) {
	p, err := policy.Parse([]byte(withSignoff(t, signer, demanded)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.NeedsSignoff(policy.Staging) != policy.Require || p.NeedsSignoff(policy.Published) != policy.Off || load(t).NeedsSignoff(policy.Staging) != policy.Off {
		t.Error("it is not asked for in staging alone")
	}
	if err := p.CheckIdentity(who("signoff"), policy.Signoffs, time.Now()); err != nil {
		t.Errorf("signoff@: %v", err)
	}
	said := fmt.Sprint(policy.Explain(p))
	for _, words := range []string{"signoff@example.test", "signs off releases", "SIGNOFF_MISSING", "at most 720h0m0s ago"} {
		if !strings.Contains(said, words) {
			t.Errorf("explain does not say %q", words)
		}
	}
	if strings.Contains(fmt.Sprint(policy.Explain(load(t))), "SIGNOFF") {
		t.Error("explain speaks of what is not asked for")
	}
	never, err := policy.Parse([]byte(withSignoff(t, signer, "")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(policy.Lint(never)), "never required") || strings.Contains(fmt.Sprint(policy.Lint(p)), "never required") {
		t.Error("lint: a role without a word")
	}
	for _, r := range []struct{ roles, field, says string }{
		{"", demanded, "no identity has the role"},
		{signer, "signoff: {stages: []}\n", "stages"},
		{signer, "signoff: {maxAge: 1h}\n", "stages"},
		{signer, "signoff: {stages: [tomorrow]}\n", "tomorrow"},
		{signer, "signoff: {stages: [staging, staging]}\n", "twice"},
		{signer, "signoff: {stages: [staging], maxAge: soon}\n", "soon"},
		{signer, "signoff: {stages: [staging], by: release}\n", "by"},
		{signer, "signoff: {stages: [staging], template: {}}\n", "template"},
		{signer, "signoff: {stages: [staging], template: {sha256: abc}}\n", "template"},
		{strings.Replace(signer, "signoff@", "release@", 1), demanded, "each needs its own identity"},
		{"  signoff: []\n", demanded, "empty"},
		{signer, "late: [{predicate: x, role: signoff, stages: [release]}]\n", "role"},
	} {
		refused(t, withSignoff(t, r.roles, r.field), r.says)
	}
	if _, err := p.Signoff(verify.Evidence{}, policy.SignedRelease{Config: digest.Of(digest.SHA256, nil)}, time.Now()); verdict.FindingOf("", err).Code != verdict.SignoffMissing {
		t.Errorf("no evidence: %v", err)
	}
	if p.IsSignoff(verify.Evidence{}) {
		t.Error("no evidence is a sign-off")
	}
}

// TestSignoffRehearsed: a policy is rehearsed with sign-offs too; each case
// changes one fact of the last, which is accepted.
func TestSignoffRehearsed(t *testing.T) {
	archive, err := os.ReadFile("testdata/signoff.txtar")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse([]byte(withSignoff(t, signer, demanded)), nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := policy.Rehearse(p, archive)
	if err != nil || len(report.Cases) < 10 {
		t.Fatalf("%d cases, %v", len(report.Cases), err)
	}
	for _, c := range report.Cases {
		if !c.OK {
			t.Errorf("%s: %v, want %v: %q", c.Name, c.Got, c.Want, c.Why)
		}
	}
	// A policy that does not ask says so, whatever there is.
	report, err = policy.Rehearse(load(t), archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Cases {
		if !slices.Equal(c.Got, []string{"POLICY_EMPTY"}) {
			t.Errorf("%s: %v of a policy that asks for no sign-off", c.Name, c.Got)
		}
	}
}

// TestSignoffTemplate: a policy that names the template takes no sign-off by
// another one.
func TestSignoffTemplate(t *testing.T) {
	archive, err := os.ReadFile("testdata/signoff.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const used = "f221ef85d8e651ffb3f3af7d8a149c362af09e594fb68d7ea419650db536ed4a"
	for template, want := range map[string]string{used: "accepted", strings.Repeat("0", 64): "SIGNOFF_OTHER_RELEASE"} {
		p, err := policy.Parse([]byte(withSignoff(t, signer, strings.Replace(demanded, "720h", "720h, template: {sha256: \""+template+"\"}", 1))), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fmt.Sprint(policy.Explain(p)), template) {
			t.Error("explain does not name the template")
		}
		report, err := policy.Rehearse(p, archive)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range report.Cases {
			if c.Name == "signed off" && !slices.Equal(c.Got, []string{want}) {
				t.Errorf("with the template %s: %v, want %s", template, c.Got, want)
			}
		}
	}
}
