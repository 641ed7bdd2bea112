package render

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/waybill-release/waybill/pkg/report/explain"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The order and attributes of the elements are those of the strictest schema in
// use; the others allow them.

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	XMLName  xml.Name `xml:"testsuite"`
	ID       string   `xml:"id,attr,omitempty"`
	Package  string   `xml:"package,attr,omitempty"`
	Name     string   `xml:"name,attr"`
	Stamp    string   `xml:"timestamp,attr,omitempty"`
	Host     string   `xml:"hostname,attr,omitempty"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Skipped  int      `xml:"skipped,attr"`
	Time     string   `xml:"time,attr,omitempty"`

	Properties *junitProperties `xml:"properties,omitempty"`
	Cases      []junitCase      `xml:"testcase"`
	Out        *string          `xml:"system-out,omitempty"`
	Err        *string          `xml:"system-err,omitempty"`
}

type junitProperties struct {
	List []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr,omitempty"`
	Skipped *junitFailure `xml:"skipped,omitempty"`
	Error   *junitFailure `xml:"error,omitempty"`
	Failure *junitFailure `xml:"failure,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// junit writes the verdict as test results: one case for each finding, which
// fails, and one for each subject that has a proof and no finding. The case of the
// whole question passes if the verdict accepts. If it does not, that case fails
// only where no finding does, so that failures are as many as faults.
func junit(w io.Writer, v verdict.Verdict) error {
	nothing, instant := "", "0"
	text := v.Counts.String() + "\n"
	for _, sentence := range v.Sentences {
		text += printable(sentence) + "\n"
	}
	suite := junitSuite{
		ID: "0", Package: "waybill", Name: named(question(v)), Stamp: v.Time.UTC().Format("2006-01-02T15:04:05"), Host: "localhost",
		Time: instant, Properties: &junitProperties{List: properties(v)}, Out: &text, Err: &nothing, Cases: junitCases(v),
	}
	for i := range suite.Cases {
		c := &suite.Cases[i]
		suite.Tests++
		switch c.Time = instant; {
		case c.Error != nil:
			suite.Errors++
		case c.Failure != nil:
			suite.Failures++
		case c.Skipped != nil:
			suite.Skipped++
		}
	}
	return writeXML(w, junitSuites{Suites: []junitSuite{suite}})
}

// named is a name that is not empty.
func named(s string) string {
	if s = printable(s); strings.TrimSpace(s) == "" {
		return "verdict"
	}
	return s
}

func properties(v verdict.Verdict) []junitProperty {
	list := []junitProperty{
		{"outcome", v.Outcome().String()}, {"headline", printable(v.Headline())},
		{"verified", fmt.Sprint(v.Counts.Verified)}, {"required", fmt.Sprint(v.Counts.Required)},
		{"missing", fmt.Sprint(v.Counts.Missing)}, {"extra", fmt.Sprint(v.Counts.Extra)},
	}
	if !v.Policy.IsZero() {
		list = append(list, junitProperty{"policy", v.Policy.String()})
	}
	if !v.TrustRoot.IsZero() {
		list = append(list, junitProperty{"trustRoot", v.TrustRoot.String()})
	}
	return list
}

func junitCases(v verdict.Verdict) (cases []junitCase) {
	whole := junitCase{Name: printable(question(v)), Class: "verdict"}
	o := v.Outcome()
	if o != verdict.Accepted {
		whole.fail(o, junitFailure{Message: printable(v.Headline()), Type: o.String(), Text: v.Counts.String()})
	}
	if o == verdict.Accepted || len(v.Findings) == 0 {
		cases = append(cases, whole)
	}
	of, faults := map[string]bool{}, map[string]int{}
	for _, f := range v.Findings {
		of[f.Subject] = true
		c := junitCase{Name: printable(f.Subject), Class: printable(string(f.Code))}
		key := c.Class + " " + c.Name
		if faults[key]++; faults[key] > 1 { // readers take equal names for one case
			c.Name += fmt.Sprintf(" (%d)", faults[key])
		}
		c.fail(f.Code.Outcome(), junitFailure{
			Message: printable(fmt.Sprintf("%s: %s", f.Code, f.Message)), Type: printable(string(f.Code)), Text: strings.Join(lineOf(f), "\n"),
		})
		cases = append(cases, c)
	}
	for _, p := range v.Proofs {
		if !of[p.Subject] {
			of[p.Subject] = true
			cases = append(cases, junitCase{Name: printable(p.Subject), Class: "artifact"})
		}
	}
	return append(cases, passedOver(v)...)
}

// fail makes the case a failure for a refusal, else an error.
func (c *junitCase) fail(o verdict.Outcome, why junitFailure) {
	if o == verdict.Refused || o == verdict.Undecided {
		c.Failure = &why
	} else {
		c.Error = &why
	}
}

// lineOf prints a finding on several lines.
func lineOf(f verdict.Finding) []string {
	lines := []string{printable(fmt.Sprintf("%s %s: %s", f.Code, f.Subject, f.Message))}
	if f.Want != "" || f.Got != "" {
		lines = append(lines, "  want "+printable(f.Want), "  got  "+printable(f.Got))
	}
	if f.Known != nil {
		lines = append(lines, "  known "+printable(f.Known.ID+": "+f.Known.Explanation))
	}
	return append(lines, "  next: "+printable(f.Fix), "  see "+printable(explain.URL(f.Code)))
}

// passedOver returns what was set aside, warned of or left out: skipped cases.
func passedOver(v verdict.Verdict) (cases []junitCase) {
	skip := func(name, class, why string) {
		cases = append(cases, junitCase{Name: printable(name), Class: class, Skipped: &junitFailure{Message: printable(why)}})
	}
	for _, w := range v.Waived {
		skip(w.Finding.Subject, "set aside", fmt.Sprintf("%s, by %s %s of %s: %s", w.Finding.Code, w.Kind, w.ID, w.By, w.Reason))
	}
	for _, f := range v.Warnings {
		skip(f.Subject, "warning", fmt.Sprintf("%s: %s", f.Code, f.Message))
	}
	for _, left := range v.Scope.Left {
		skip(left, "left out", "the verdict is partial without it")
	}
	return cases
}

func writeXML(w io.Writer, v any) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
