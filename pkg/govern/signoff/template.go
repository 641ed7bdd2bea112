package signoff

import (
	"fmt"
	"html"
	"strings"
	"unicode"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
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
	t := &Template{Document: d, said: map[string]bool{}, rules: slice.Map(d.sections, func(s Section) Rule { return Rule{Section: s} })}
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
	return slice.Filter(t.rules, func(r Rule) bool { return r.Required && r.Level > 1 && at.reaches(r.From) })
}

var (
	tocEntry = pattern.Lazy(`^\s*[-*+] +\[(.*)\]\(#([^)]*)\)\s*$`)
)

// tag matches the tags that generators of tables of contents put around code.
var tag = pattern.Lazy(`</?[a-z]+>`)

// tocDepth is the deepest level of headings in a table of contents.
const tocDepth = 5

// entry is one line of a table of contents.
type entry struct{ title, anchor string }

// drift is the first difference between the table of contents and the headings below it,
// "" if there is none, or no table of contents.
func (d *Document) drift() string {
	listed, from, there := d.contents()
	if !there {
		return ""
	}
	seen := map[string]int{}
	var want []entry
	for _, s := range d.sections {
		if s.Line <= from || s.Level == 1 || s.Level > tocDepth {
			continue
		}
		a := anchor(s.Title)
		if n := seen[a]; n > 0 {
			seen[a]++
			a = fmt.Sprintf("%s-%d", a, n)
		} else {
			seen[a] = 1
		}
		want = append(want, entry{s.Title, a})
	}
	for i := range max(len(want), len(listed)) {
		switch {
		case i >= len(listed):
			return fmt.Sprintf("%s is missing", quoted(want[i].title))
		case i >= len(want):
			return fmt.Sprintf("%s is not in the document", quoted(listed[i].title))
		case key(listed[i].title) != key(want[i].title):
			return fmt.Sprintf("%s instead of %s", quoted(listed[i].title), quoted(want[i].title))
		case listed[i].anchor != want[i].anchor:
			return fmt.Sprintf("the link to %s is #%s, want #%s", quoted(want[i].title), listed[i].anchor, want[i].anchor)
		}
	}
	return ""
}

// contents are the entries of the table of contents, and the line of its end.
func (d *Document) contents() (list []entry, end int, there bool) {
	begun := false
	for _, b := range d.page.blocks {
		switch strings.TrimSpace(b.text) {
		case "toc":
			if !begun {
				begun, end = true, b.line
			}
		case "/toc":
			if begun {
				for _, l := range d.page.lines {
					if m := tocEntry().FindStringSubmatch(l.text); m != nil && l.number > end && l.number < b.line {
						list = append(list, entry{html.UnescapeString(tag().ReplaceAllString(shown(m[1]), "")), m[2]})
					}
				}
				return list, b.line, true
			}
		}
	}
	return nil, 0, false
}

// anchor is the link target of a heading.
func anchor(title string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(shown(title)) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			out.WriteRune(r)
		case r == ' ':
			out.WriteByte('-')
		}
	}
	return out.String()
}
