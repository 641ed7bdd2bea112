package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// CaseFormats are the formats of a [policy.CaseReport].
func CaseFormats() []string { return []string{string(Table), string(JSON), string(JUnit)} }

// Cases writes the result of testing a policy with cases.
func Cases(w io.Writer, f Format, r policy.CaseReport) error {
	switch f {
	case Table:
		return caseTable(w, r)
	case JSON:
		return WriteJSON(w, struct {
			Schema string `json:"schema"`
			policy.CaseReport
			Failed int `json:"failed"`
		}{"waybill/case-report/v1", r, r.Failed()})
	case JUnit:
		return caseJUnit(w, r)
	}
	return verdict.Refuse(verdict.Usage, "output", "%q: want one of %s", f, strings.Join(CaseFormats(), ", "))
}

func caseTable(w io.Writer, r policy.CaseReport) error {
	p := &page{w: w}
	width := 44
	for _, c := range r.Cases {
		width = max(width, utf8.RuneCountInString(Safe(c.Name)))
	}
	for _, c := range r.Cases {
		word := "ok"
		if !c.OK {
			word = "FAILED"
		}
		p.line("  %-7s %-*s %s", word, width, Safe(c.Name), Safe(strings.Join(c.Got, " ")))
		if c.OK {
			continue
		}
		p.line("  %-7s want %s", "", Safe(strings.Join(c.Want, " ")))
		for _, why := range c.Why {
			p.line("  %-7s %s", "", Safe(why))
		}
	}
	p.line("")
	p.line("policy %s %s", Safe(r.Policy), r.Digest)
	p.line("%s, %d failed. This tests the policy; no signature was verified.", plural.Of(len(r.Cases), "case"), r.Failed())
	return p.err
}

func caseJUnit(w io.Writer, r policy.CaseReport) error {
	suite := junitSuite{Name: "policy " + r.Policy, Tests: len(r.Cases), Failures: r.Failed()}
	for _, c := range r.Cases {
		row := junitCase{Name: c.Name, Class: r.Policy}
		if !c.OK {
			row.Failure = &junitFailure{
				Message: fmt.Sprintf("want %s, got %s", strings.Join(c.Want, " "), strings.Join(c.Got, " ")),
				Text:    Safe(strings.Join(c.Why, "; ")),
			}
		}
		suite.Cases = append(suite.Cases, row)
	}
	return writeXML(w, suite)
}

// PolicyFormats are the formats of an explained policy.
func PolicyFormats() []string { return []string{string(Table), string(JSON)} }

// PolicyText is a policy in plain words.
type PolicyText struct {
	Schema   string           `json:"schema"`
	Name     string           `json:"name"`
	Digest   digest.Digest    `json:"digest"`
	Sections []policy.Section `json:"sections"`
}

// Explain writes a policy in plain words.
func Explain(w io.Writer, f Format, text PolicyText) error {
	switch f {
	case JSON:
		text.Schema = "waybill/policy-text/v1"
		return WriteJSON(w, text)
	case Table:
		p := &page{w: w}
		p.line("policy %s", Safe(text.Name))
		p.line("%s", text.Digest)
		for _, s := range text.Sections {
			p.line("")
			p.line("%s", s.Title)
			for _, line := range s.Lines {
				p.line("  - %s", Safe(line))
			}
		}
		return p.err
	}
	return verdict.Refuse(verdict.Usage, "output", "%q: want one of %s", f, strings.Join(PolicyFormats(), ", "))
}

// Linted is a file that loads, with its lint results.
type Linted struct {
	File  string   `json:"file"`
	Notes []string `json:"notes,omitempty"`
}

// Lint writes the lint results of files that load.
func Lint(w io.Writer, f Format, all []Linted) error {
	switch f {
	case JSON:
		return WriteJSON(w, struct {
			Schema string   `json:"schema"`
			Files  []Linted `json:"files"`
		}{"waybill/policy-lint/v1", all})
	case Table:
		p := &page{w: w}
		for _, file := range all {
			for _, note := range file.Notes {
				p.line("%s: %s", Safe(file.File), Safe(note))
			}
			if len(file.Notes) == 0 {
				p.line("%s: loads, no lint findings", Safe(file.File))
			}
		}
		return p.err
	}
	return verdict.Refuse(verdict.Usage, "output", "%q: want one of %s", f, strings.Join(PolicyFormats(), ", "))
}

// WriteJSON writes a value as indented JSON, for programs and for people.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
