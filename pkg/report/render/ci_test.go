package render_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/report/explain"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestSARIFForScanners checks what GitHub and viewers show: the severity of each
// result, the address of its explanation, and a title that fits an accepted run.
func TestSARIFForScanners(t *testing.T) {
	v := exceptedRelease() // a warning and two findings that were set aside
	v.Note("a note")
	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct {
					Rules []struct {
						ID, HelpURI      string
						ShortDescription struct{ Text string }
						Properties       map[string]any
						Default          struct{ Level string } `json:"defaultConfiguration"`
					}
				}
			}
			Invocations []struct {
				Told []struct{ Level string } `json:"toolExecutionNotifications"`
			}
			Results []struct {
				RuleID, Level string
				Suppressions  []struct{ Kind string }
			}
		}
	}
	raw := write(t, render.SARIF, v)
	if err := json.Unmarshal([]byte(raw), &log); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range log.Runs[0].Results {
		got = append(got, fmt.Sprintf("%s %s %d", r.RuleID, r.Level, len(r.Suppressions)))
	}
	if want := []string{"EXTRA warning 0", "NO_SBOM note 1", "UNSIGNED note 1"}; !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
	for _, rule := range log.Runs[0].Tool.Driver.Rules {
		e, _ := explain.Of(rule.ID)
		if rule.HelpURI != e.Page || rule.ShortDescription.Text != e.Title || e.Title == "" {
			t.Errorf("rule %+v: want the title and page of %+v", rule, e)
		}
		severity, has := rule.Properties["security-severity"].(string)
		if n, err := strconv.ParseFloat(severity, 64); has && (err != nil || n <= 0 || n > 10) || has == (e.Attack == "") {
			t.Errorf("%s: severity %q, attack %q", rule.ID, severity, e.Attack)
		}
	}
	if told := log.Runs[0].Invocations[0].Told; len(told) != 1 || told[0].Level != "note" {
		t.Errorf("notifications %+v, want the note", told)
	}
	if strings.Contains(raw, "refused: ") {
		t.Errorf("an accepted run says that it was refused:\n%s", raw)
	}
	if refused := write(t, render.SARIF, refusedRelease()); !strings.Contains(refused, `"level": "error"`) {
		t.Errorf("a refusal is no error:\n%s", refused)
	}
}

// TestOneFailureForEachFault: what is counted as failed are the faults, and a
// verdict that does not accept without a finding fails once.
func TestOneFailureForEachFault(t *testing.T) {
	v := verdict.New("q", noon())
	v.Add(verdict.Find(verdict.Tampered, "a", "1"), verdict.Find(verdict.Unsigned, "a", "2"), verdict.Find(verdict.Tampered, "a", "3"), verdict.Find(verdict.Missing, "b", "4"))
	s := readXML(t, v)
	if s.Failures != 4 || s.Errors != 0 || s.Tests != 4 {
		t.Errorf("%+v, want 4 failures", s)
	}
	names := map[string]bool{}
	for line := range strings.Lines(write(t, render.JUnit, v)) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "<testcase "); is && names[name] {
			t.Errorf("%s is there twice: readers take one of the two", name)
		} else if is {
			names[name] = true
		}
	}
	none := verdict.New("q", noon())
	none.Counts.Required = 3
	if s := readXML(t, none); s.Failures != 1 || s.Tests != 1 {
		t.Errorf("undecided without findings: %+v, want 1 failure", s)
	}
	v.Findings = v.Findings[:1]
	if s := readXML(t, v); s.Failures != 1 {
		t.Errorf("one fault: %+v, want 1 failure", s)
	}
}

// TestStepSummary: the heading fits, and many findings are folded.
func TestStepSummary(t *testing.T) {
	for _, n := range []int{20, 21} {
		v := verdict.New("q", noon())
		v.Scope.Left = []string{strings.Repeat("something that was left out, ", 20)}
		for i := range n {
			v.Add(verdict.Find(verdict.Extra, fmt.Sprintf("file-%02d", i), "not listed"))
		}
		page := write(t, render.Markdown, v)
		if folded := strings.Contains(page, "<details><summary>All findings</summary>"); folded != (n > 20) {
			t.Errorf("%d findings: folded %t:\n%s", n, folded, page)
		}
		if strings.Count(page, "<details>") != strings.Count(page, "</details>") || !strings.Contains(page, "[what it means]("+explain.URL(verdict.Extra)+")") {
			t.Error(page)
		}
	}
	v := exceptedRelease()
	v.Scope.Left = []string{strings.Repeat("something that was left out ", 20)}
	page := write(t, render.Markdown, v)
	heading, rest, _ := strings.Cut(page, "\n")
	if utf8.RuneCountInString(heading) > 104 || !strings.HasPrefix(heading, "## OK") {
		t.Errorf("heading of %d characters: %q", utf8.RuneCountInString(heading), heading)
	}
	if !strings.Contains(rest, v.Scope.Left[0][:200]) {
		t.Errorf("what the heading leaves out is not below it:\n%s", page)
	}
}

// TestSchemaIsVersioned: the address of the schema ends as the documents name it.
func TestSchemaIsVersioned(t *testing.T) {
	var schema struct {
		ID         string `json:"$id"`
		Properties struct{ Schema struct{ Enum []string } }
	}
	if err := json.Unmarshal(render.VerdictSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(schema.ID, strings.TrimPrefix(verdict.Schema, "waybill/")) || !slices.Equal(schema.Properties.Schema.Enum, []string{verdict.Schema}) {
		t.Errorf("%+v, want the version of %s", schema, verdict.Schema)
	}
}
