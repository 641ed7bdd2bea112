package signoff_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestDocsEnhancements: our own features have documents against which nothing
// stands at the stage that they claim, which is the one that they have, and whose
// ticks are proven.
func TestDocsEnhancements(t *testing.T) {
	raw, err := os.ReadFile("enhancements/template.md")
	if err != nil {
		t.Fatal(err)
	}
	q := signoff.Question{
		Milestone: "v0.1", Now: today(), Hosts: signoff.Hosts{Allowed: signoff.Canonical()},
		Registry: signoff.Features(known.Registry(), at(t, "v0.1.0")),
	}
	if q.Template, err = signoff.ParseTemplate(raw); err != nil {
		t.Fatal(err)
	}
	if q.Set, err = signoff.Read(os.DirFS("enhancements"), "enhancements"); err != nil {
		t.Fatal(err)
	}
	v, r := signoff.Check(q)
	if v.Outcome() != verdict.Accepted || len(v.Warnings) > 0 || len(q.Template.Faults()) > 0 {
		t.Errorf("%s: %v, warnings %v", v.Headline(), v.Findings, v.Warnings)
	}
	if len(r.Documents) < 2 || len(r.Skipped) > 0 {
		t.Errorf("%d documents, left out %q", len(r.Documents), r.Skipped)
	}
	if !slices.ContainsFunc(r.Documents, func(d signoff.Checked) bool { return slices.Contains(d.Gates, known.RequireSignoff) }) {
		t.Error("no document names the gate by which sign-offs are required")
	}
	for _, d := range r.Documents {
		for _, b := range d.Boxes {
			if b.Required && b.Evidence != signoff.ByMachine {
				t.Errorf("%s: %q is %s", d.Dir, b.Text, b.Evidence)
			}
		}
	}
}

// TestHelpNamesEveryRule: the help of the command lists every code with which
// documents are refused.
func TestHelpNamesEveryRule(t *testing.T) {
	for _, c := range verdict.Codes() {
		if !strings.HasPrefix(string(c), "SIGNOFF_") {
			continue
		}
		switch c {
		case verdict.SignoffMissing, verdict.SignoffOther, verdict.SignoffExpired, verdict.SignoffTemplate:
			continue // of the gate, and of templates
		}
		if !strings.Contains(signoff.Rules(), string(c)+" ") {
			t.Errorf("the help does not say what %s is", c)
		}
	}
	for line := range strings.Lines(signoff.Rules()) {
		if code := verdict.Code(strings.Fields(line)[0]); !slices.Contains(verdict.Codes(), code) {
			t.Errorf("the help names %s, which is no code", code)
		}
	}
}

// TestDocsPage reads the examples of the page as what they are.
func TestDocsPage(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, rest := range strings.Split(string(raw), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(rest, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) != 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	r, err := signoff.ParseRecord([]byte(blocks[0]))
	if err != nil || len(r.Freezes) != 4 || len(r.Approvals) != 1 || len(r.Exceptions) != 1 {
		t.Errorf("the record: %+v, %v", r, err)
	}
	if _, err := signoff.ParseRegistry([]byte(blocks[1])); err != nil {
		t.Errorf("the registry: %v", err)
	}
	valid, err := os.ReadFile("../../judge/policy/testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	roles, field, _ := strings.Cut(strings.TrimPrefix(blocks[2], "roles:\n"), "signoff: {")
	text := strings.Replace(string(valid), "roles:\n", "roles:\n"+roles, 1) + "signoff: {" + field
	if p, err := policy.Parse([]byte(text), nil); err != nil || p.NeedsSignoff("staging") != policy.Require {
		t.Errorf("the policy: %v", err)
	}
}
