package signoff

import (
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Template says which sections a document has, and from when on.
type Template struct {
	*Document
	rules  []Rule
	faults []Fault
	said   map[string]bool // every line of it that can be seen
}

// Rule is what a template says of one section.
type Rule struct {
	Section
	// Stated says that the template has a directive for the section.
	Stated   bool
	Required bool
	From     Stage // from which on it is required
}

// Fault is something in a template that is not in the form that it must have.
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
			t.faults = append(t.faults, Fault{dir.line, "the directive is not in its form: " + dir.fault})
		}
		t.apply(dir)
	}
	for _, b := range d.page.blocks {
		if !b.closed {
			t.faults = append(t.faults, Fault{b.line, "a comment begins here and never ends"})
		}
	}
	for _, l := range d.page.lines {
		if l.words != "" {
			t.said[l.words] = true
		}
	}
	if len(t.rules) == 0 {
		return nil, verdict.Refuse(verdict.SignoffTemplate, "template", "it has no headings, so nothing could be missing")
	}
	return t, nil
}

// apply gives a directive to the heading above it.
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
		// Sections are known by the words of their titles, so no document could have this one.
		t.faults = append(t.faults, Fault{dir.line, "the heading above the directive has no words"})
	case t.rules[of].Stated:
		t.faults = append(t.faults, Fault{dir.line, "the section " + quoted(t.rules[of].Title) + " has a directive already"})
	default:
		t.rules[of].Stated, t.rules[of].Required, t.rules[of].From = true, dir.required, dir.stage
	}
}

// Faults lists what is not in the form that it must have.
func (t *Template) Faults() []Fault { return append([]Fault(nil), t.faults...) }

// required are the rules that count at a stage. The title is not among them:
// see the check of titles.
func (t *Template) required(at Stage) []Rule {
	var list []Rule
	for _, r := range t.rules {
		if r.Required && r.Level > 1 && at.reaches(r.From) {
			list = append(list, r)
		}
	}
	return list
}

// demands reports whether the template has any directive at all: a page
// without one asks for nothing.
func (t *Template) demands() bool { return len(t.required(Stable)) > 0 }
