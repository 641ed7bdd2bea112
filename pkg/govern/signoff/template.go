package signoff

import (
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Template says which sections each stage requires.
type Template struct {
	*Document
	rules  []Rule
	faults []Fault
	said   map[string]bool // every visible line
}

// Rule is the requirement of one section.
type Rule struct {
	Section
	// Stated says that the template has a directive for the section.
	Stated   bool
	Required bool
	From     Stage // first stage that requires it
}

// Fault is a malformed part of a template.
type Fault struct {
	Line    int
	Message string
}

// ParseTemplate reads a template.
func ParseTemplate(raw []byte) (*Template, error) {
	d, err := ParseDocument(raw)
	if err != nil {
		return nil, err
	}
	t := &Template{Document: d, said: map[string]bool{}}
	for _, s := range d.sections {
		t.rules = append(t.rules, Rule{Section: s})
	}
	for _, dir := range d.page.directives {
		if dir.fault != "" {
			t.faults = append(t.faults, Fault{dir.line, "malformed directive: " + dir.fault})
		}
		t.apply(dir)
	}
	for _, b := range d.page.blocks {
		if !b.closed {
			t.faults = append(t.faults, Fault{b.line, "a comment that begins here has no end"})
		}
	}
	for _, l := range d.page.lines {
		if l.words != "" {
			t.said[l.words] = true
		}
	}
	if len(t.rules) == 0 {
		return nil, verdict.Refuse(verdict.SignoffTemplate, "template", "the template has no heading, so it requires no section")
	}
	return t, nil
}

// apply applies a directive to the heading above it.
func (t *Template) apply(dir directive) {
	of := -1
	for i, r := range t.rules {
		if r.Line < dir.line {
			of = i
		}
	}
	switch {
	case of < 0:
		t.faults = append(t.faults, Fault{dir.line, "the directive has no heading above it"})
	case key(t.rules[of].Title) == "":
		// Sections are identified by the words of their titles.
		t.faults = append(t.faults, Fault{dir.line, "the heading above the directive has no words"})
	case t.rules[of].Stated:
		t.faults = append(t.faults, Fault{dir.line, "the section " + quoted(t.rules[of].Title) + " already has a directive"})
	default:
		t.rules[of].Stated, t.rules[of].Required, t.rules[of].From = true, dir.required, dir.stage
	}
}

// Faults lists the malformed parts.
func (t *Template) Faults() []Fault { return append([]Fault(nil), t.faults...) }

// required are the sections that a stage requires. The title is checked separately.
func (t *Template) required(at Stage) []Rule {
	var list []Rule
	for _, r := range t.rules {
		if r.Required && r.Level > 1 && at.reaches(r.From) {
			list = append(list, r)
		}
	}
	return list
}

// demands reports whether the template requires any section.
func (t *Template) demands() bool { return len(t.required(Stable)) > 0 }
