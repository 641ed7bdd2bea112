package render_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/report/explain"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// filled is a verdict with one text in every field that others write.
func filled(text string) *verdict.Verdict {
	v := verdict.New(text, noon())
	v.Add(verdict.Find(verdict.Extra, text, "%s", text).Differ(text, text))
	v.Findings[0].Known = &verdict.Known{ID: text, Explanation: text, Source: text}
	v.Waived = []verdict.Waiver{{Finding: v.Findings[0], Kind: verdict.ByException, ID: text, Reason: text, By: text}}
	v.Warn(verdict.Find(verdict.Extra, text, "%s", text))
	v.Note("%s", text)
	v.Scope.Left = []string{text}
	v.Groups = []verdict.Group{{Name: text, Required: 2}}
	v.Proofs = []verdict.Proof{{Subject: text + "2", Identity: text, Statement: text, Role: text, Bundle: digest.Of(digest.SHA256, nil)}}
	v.Levels = []verdict.Levels{{Subject: text, Track: text, Next: []string{text}, Requirements: []verdict.Requirement{{ID: text, Why: text}}}}
	v.Inputs = []verdict.Input{{Name: text, Place: text}}
	v.Features = []verdict.Feature{{Name: text, State: text, Mode: text}}
	return v
}

// evils are texts that mean something in one of the forms.
func evils() []string {
	return []string{
		"\x1b[2J\u202e\nACCEPTED: complete", "<script>alert(1)</script>", "]]></failure>", "a|b\\|c", "`` ` @maintainers https://evil.example.test",
		`" onload="alert(1)`, "'><img src=x>", "&lt;b&amp;", "\nACCEPTED: complete\n# done\n- [x] fine", "![x](https://evil.example.test/a.png)",
		"https://evil.example.test/a b%2f..", "../../../etc/passwd", "javascript:alert(1)", "\xff\x00\ufffe", "</style></title>", "`", "\\", " ", "a\U000e0041b",
	}
}

// TestHostileText puts hostile text into every field, and holds each form
// against the same verdict of harmless text: the structure does not change.
func TestHostileText(t *testing.T) {
	harmless := filled("harmless")
	for _, evil := range evils() {
		v := filled(evil)
		for _, f := range render.Formats() {
			got := write(t, render.Format(f), v)
			if strings.ContainsAny(got, "\x1b\u202e\x00\U000e0041") || !utf8.ValidString(got) || strings.Contains(got, "\nACCEPTED") || strings.Contains(got, "\n#done") {
				t.Errorf("%s of %q: it acts:\n%q", f, evil, got)
			}
		}
		tags := regexp.MustCompile(`<[^>]*>`)
		for _, f := range []render.Format{render.HTML, render.JUnit} {
			want := tags.FindAllString(write(t, f, harmless), -1)
			got := tags.FindAllString(write(t, f, v), -1)
			if len(got) != len(want) {
				t.Errorf("%s of %q has %d tags, want %d", f, evil, len(got), len(want))
			}
		}
		if page := strings.ToLower(write(t, render.HTML, v)); strings.Contains(page, "<script") || strings.Contains(page, "<img") || strings.Contains(page, `src=`) && !strings.Contains(evil, "src=") {
			t.Errorf("HTML of %q loads or runs something", evil)
		}
		want, got := strings.Count(write(t, render.Markdown, harmless), "\n"), strings.Count(write(t, render.Markdown, v), "\n")
		if got != want {
			t.Errorf("markdown of %q has %d lines, want %d", evil, got, want)
		}
		readXML(t, v)
		readSARIF(t, v)
		var same verdict.Verdict
		if err := json.Unmarshal([]byte(write(t, render.JSON, v)), &same); err != nil || same.Question != strings.ToValidUTF8(evil, "\ufffd") {
			t.Errorf("JSON of %q says %q, %v", evil, same.Question, err)
		}
	}
}

// TestMarkdownKeepsTextInCode: outside of code there is no tag, link, mention
// or table of anybody but us.
func TestMarkdownKeepsTextInCode(t *testing.T) {
	for _, evil := range evils() {
		for line := range strings.Lines(write(t, render.Markdown, filled(evil))) {
			rest := outsideCode(line)
			for _, ours := range []string{"<details><summary>What this rests on</summary>", "</details>", "[what it means](" + explain.URL(verdict.Extra) + ")", "[what these words mean](" + explain.Concepts + ")"} {
				rest = strings.ReplaceAll(rest, ours, "")
			}
			table := strings.HasPrefix(line, "|")
			if strings.ContainsAny(rest, "<>@[]!`\\&") || !table && strings.Contains(rest, "|") || strings.Contains(rest, "://") || table && strings.Count(line, "|") != 4 {
				t.Errorf("%q: outside of code: %q of %q", evil, rest, line)
			}
		}
	}
}

// outsideCode takes the spans of code out of a line, as CommonMark reads them:
// a run of backticks is closed by the next run of the same length.
func outsideCode(line string) (rest string) {
	for {
		i := strings.IndexByte(line, '`')
		if i < 0 {
			return rest + line
		}
		rest += line[:i]
		n := len(line[i:]) - len(strings.TrimLeft(line[i:], "`"))
		body, closed := line[i+n:], false
		for at := 0; at < len(body); {
			run := len(body[at:]) - len(strings.TrimLeft(body[at:], "`"))
			if run == n {
				line, closed = body[at+run:], true
				break
			}
			at += max(run, 1)
		}
		if !closed {
			return rest + line[i:]
		}
	}
}

type suite struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Skipped  int `xml:"skipped,attr"`
	Cases    []struct {
		Name    string    `xml:"name,attr"`
		Failure *struct{} `xml:"failure"`
		Error   *struct{} `xml:"error"`
		Skipped *struct{} `xml:"skipped"`
	} `xml:"testcase"`
}

// readXML reads the results as a CI system does.
func readXML(t *testing.T, v *verdict.Verdict) suite {
	t.Helper()
	var all struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []suite  `xml:"testsuite"`
	}
	raw := write(t, render.JUnit, v)
	if err := xml.Unmarshal([]byte(raw), &all); err != nil || len(all.Suites) != 1 {
		t.Fatalf("%v\n%s", err, raw)
	}
	s := all.Suites[0]
	var failed, broken, skipped int
	for _, c := range s.Cases {
		switch {
		case c.Failure != nil:
			failed++
		case c.Error != nil:
			broken++
		case c.Skipped != nil:
			skipped++
		}
	}
	if s.Tests != len(s.Cases) || s.Failures != failed || s.Errors != broken || s.Skipped != skipped {
		t.Errorf("the counts %+v are not those of the cases", s)
	}
	return s
}

type sarifRead struct {
	Version string
	Runs    []struct {
		Tool struct {
			Driver struct{ Rules []struct{ ID string } }
		}
		Invocations []struct{ ExecutionSuccessful bool }
		Results     []struct {
			RuleID    string
			RuleIndex int
			Locations []struct {
				PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
			}
			Suppressions []struct{ Status string }
		}
	}
}

// readSARIF reads the results as a code scanner does: each has a rule that is
// listed, and a place that is relative.
func readSARIF(t *testing.T, v *verdict.Verdict) sarifRead {
	t.Helper()
	var log sarifRead
	raw := write(t, render.SARIF, v)
	if err := json.Unmarshal([]byte(raw), &log); err != nil || log.Version != "2.1.0" || len(log.Runs) != 1 || len(log.Runs[0].Invocations) != 1 {
		t.Fatalf("%v\n%s", err, raw)
	}
	for _, r := range log.Runs[0].Results {
		if rules := log.Runs[0].Tool.Driver.Rules; r.RuleIndex >= len(rules) || rules[r.RuleIndex].ID != r.RuleID || len(r.Locations) != 1 {
			t.Errorf("result %+v of rules %+v", r, rules)
			continue
		}
		uri := r.Locations[0].PhysicalLocation.ArtifactLocation.URI
		if u, err := url.Parse(uri); err != nil || u.IsAbs() || u.Host != "" || strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path, "../") || uri == "" {
			t.Errorf("place %q: %v", uri, err)
		}
	}
	return log
}

// TestNoFormPassesWhatDoesNot: whoever reads only whether anything failed, in
// any form, never reads a pass where the verdict does not accept.
func TestNoFormPassesWhatDoesNot(t *testing.T) {
	unavailable := verdict.New("q", noon())
	unavailable.AddError("place", &verdict.UnavailableError{Place: "p", Op: "listing", Err: io.ErrUnexpectedEOF})
	none := verdict.New("q", noon())
	none.Counts.Required = 3
	for name, v := range map[string]*verdict.Verdict{
		"zero": {}, "undecided": none, "refused": refusedRelease(), "unavailable": unavailable,
	} {
		t.Run(name, func(t *testing.T) {
			if s := readXML(t, v); s.Failures+s.Errors == 0 {
				t.Errorf("JUnit passes: %+v", s)
			}
			run := readSARIF(t, v).Runs[0]
			if run.Invocations[0].ExecutionSuccessful && len(run.Results) == 0 {
				t.Error("SARIF passes")
			}
			for _, f := range []render.Format{render.Table, render.Markdown, render.HTML} {
				if page := write(t, f, v); !strings.Contains(page, strings.ToUpper(v.Outcome().String())) || f != render.Table && !strings.Contains(page, v.Counts.String()) {
					t.Errorf("%s does not say %s:\n%s", f, v.Outcome(), page)
				}
			}
		})
	}
	excepted := exceptedRelease()
	if s := readXML(t, excepted); s.Failures+s.Errors != 0 || s.Skipped != 4 {
		t.Errorf("accepted with waivers: %+v", s)
	}
	for _, r := range readSARIF(t, excepted).Runs[0].Results[1:] { // after the warning
		if len(r.Suppressions) != 1 || r.Suppressions[0].Status != "accepted" {
			t.Errorf("what was set aside is %+v", r)
		}
	}
}

// TestVerboseIsWhole: everything is there, and no text is cut.
func TestVerboseIsWhole(t *testing.T) {
	v := verdict.New("q", noon())
	cause := strings.Repeat("reading it: ", 60) + "permission denied"
	for i := range 40 {
		v.Add(verdict.Find(verdict.PlaceDown, fmt.Sprintf("file-%02d", i), "%s", cause))
	}
	for _, f := range []render.Format{render.Table, render.Markdown} {
		var b bytes.Buffer
		if err := (render.Printer{Verbose: true}).Print(&b, f, *v); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "file-"); n < 40 || strings.Count(b.String(), cause) != 40 {
			t.Errorf("%s leaves something out:\n%s", f, b.String())
		}
		if short := write(t, f, v); strings.Contains(short, cause) || strings.Count(short, "permission denied") != 5 {
			t.Errorf("%s: cut, the end must say why:\n%s", f, short)
		}
	}
}

// TestTableFits: lines are folded at spaces; what is to be copied is not.
func TestTableFits(t *testing.T) {
	v := refusedRelease()
	v.Note("%s", strings.Repeat("a word and ", 30))
	for _, width := range []int{20, 40, 80, 120} {
		var b bytes.Buffer
		if err := (render.Printer{Width: width}).Print(&b, render.Table, *v); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimRight(line, "\n")
			if words := strings.Fields(line); utf8.RuneCountInString(line) > width && len(words) > 1 && len(strings.Join(words, " ")) > width {
				if last := words[len(words)-1]; utf8.RuneCountInString(last) < width/2 && utf8.RuneCountInString(words[0]) < width/2 {
					t.Errorf("width %d: %q", width, line)
				}
			}
		}
		flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
		if flat(b.String()) != flat(write(t, render.Table, v)) {
			t.Errorf("width %d says something else:\n%s", width, b.String())
		}
	}
}
