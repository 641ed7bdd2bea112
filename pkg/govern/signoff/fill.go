package signoff

import (
	"html"
	"slices"
	"strings"
	"unicode"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// State is the state of a required section.
type State string

// The states. Only Filled is sufficient.
const (
	Filled      State = "filled"
	Missing     State = "missing"
	Commented   State = "commented out"
	Empty       State = "empty"
	Placeholder State = "a placeholder"
	Unchanged   State = "unchanged template text"
)

// Judged is a required section with its state.
type Judged struct {
	Title string
	State State
	Line  int // line in the document, 0 if missing
}

// Sections determines the state of every section that a template requires for a stage.
func Sections(d *Document, t *Template, at Stage) []Judged {
	return slice.Map(t.required(at), func(r Rule) Judged { return d.judge(r.Title, t) })
}

// judge determines the state of one section. A section is filled if it has a line of its
// own, or if a subsection has one. A placeholder line such as TBD makes it unfilled,
// whatever else it contains.
func (d *Document) judge(title string, t *Template) Judged {
	s, there := d.find(title)
	if !there {
		if at, hidden := d.hidden[key(title)]; hidden {
			return Judged{title, Commented, at}
		}
		return Judged{title, Missing, 0}
	}
	own := d.weigh(d.lines(s.from, s.to), t)
	if own == Filled || own == Placeholder {
		return Judged{title, own, s.Line}
	}
	below := d.weigh(d.lines(s.to, s.end), t)
	switch {
	case d.anyFilled(s, t):
		return Judged{title, Filled, s.Line}
	case own == Empty && below != Filled:
		return Judged{title, below, s.Line}
	}
	return Judged{title, own, s.Line}
}

// anyFilled reports whether a subsection is filled.
func (d *Document) anyFilled(of Section, t *Template) bool {
	return slices.ContainsFunc(d.sections, func(s Section) bool {
		return s.from > of.from && s.from <= of.end && d.weigh(d.lines(s.from, s.to), t) == Filled
	})
}

// weigh is the state of some lines together.
func (d *Document) weigh(lines []line, t *Template) State {
	state := Empty
	for _, l := range lines {
		switch {
		case l.weight == Empty:
		case l.weight == Placeholder:
			return Placeholder
		case t.said[l.words]:
			if state == Empty {
				state = Unchanged
			}
		default:
			state = Filled
		}
	}
	return state
}

// weigh is the state of a single line, without comparing it with the template.
func (l *line) weigh() {
	l.words, l.weight = strings.Join(strings.Fields(mend(l.text)), " "), Filled // one space between words, for comparison
	switch level, _ := headingOf(l.text); {
	case level > 0 && !l.fenced, !says(l.words, l.fenced):
		l.weight = Empty
	case unfilled().MatchString(l.words):
		l.weight = Placeholder
	}
}

// says reports whether a line has visible text: dividers, comment ends, empty tags and
// links, and link definitions have none.
func says(text string, fenced bool) bool {
	if strings.HasPrefix(text, "[") && strings.Contains(text, "]: ") {
		return false
	}
	if !fenced {
		text = html.UnescapeString(mute().ReplaceAllString(text, ""))
	}
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.L, unicode.N, unicode.So, unicode.Sc) && !strings.ContainsRune(unseen, r)
	})
}

var (
	// mute matches HTML tags, links without text and pictures without an address.
	// Any other word in <…> is text, because templates use such brackets.
	mute = pattern.Lazy(`(?i)</?(?:a|b|br|center|code|details|div|em|font|h[1-6]|hr|i|kbd|li|ol|p|pre|small|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul)(?:\s[^<>]*)?/?>` +
		`|!\[[^\]]*\]\(\s*\)|\[\s*\]\([^)]*\)`)
)

// unseen are invisible letters and signs.
const unseen = "\u115f\u1160\u2800\u3164\uffa0"

// Item is one box of a checklist. A tick is a claim.
type Item struct {
	Text     string
	Required bool // marked (R): required before a milestone is targeted
	Ticked   bool
	Depth    int // nesting depth, 0 at the top
	Line     int
}

// Checklist is the sign-off checklist of a document.
type Checklist struct {
	Items []Item
	// Flat says that the nesting is unknown, because the text was copied from a web
	// page.
	Flat bool
}

// checklistTitle is the title of the section with the boxes.
const checklistTitle = "Release Signoff Checklist"

var (
	box  = pattern.Lazy(`^(\s*)[-*+] +\[([ xX])\]\s+(.*)$`)
	mark = pattern.Lazy(`^\(R\)\s*`)
)

// Checklist reads the boxes of the sign-off section. Boxes elsewhere are questions of the
// template, and not part of the checklist.
func (d *Document) Checklist() (Checklist, error) {
	list := Checklist{Flat: d.page.scraped}
	s, there := d.find(checklistTitle)
	if !there {
		return list, nil
	}
	var indents []int
	inItem := false
	for _, l := range d.lines(s.from, s.end) {
		m := box().FindStringSubmatch(l.text)
		if m == nil || l.fenced {
			text := strings.TrimSpace(l.text)
			if inItem = inItem && text != "" && !list.Flat && strings.HasPrefix(l.text, " "); inItem {
				list.Items[len(list.Items)-1].Text += " " + text
			}
			continue
		}
		if len(list.Items) == maxItems {
			return Checklist{}, verdict.Refuse(verdict.Limit, "checklist", "more than %d items", maxItems)
		}
		indent := len(strings.ReplaceAll(m[1], "\t", "    "))
		for len(indents) > 0 && indents[len(indents)-1] >= indent {
			indents = indents[:len(indents)-1]
		}
		text := strings.TrimSpace(m[3])
		list.Items = append(list.Items, Item{
			Text: mark().ReplaceAllString(text, ""), Required: mark().MatchString(text),
			Ticked: m[2] != " ", Line: l.number,
		})
		if !list.Flat {
			list.Items[len(list.Items)-1].Depth = len(indents)
		}
		indents = append(indents, indent)
		inItem = true
	}
	return list, nil
}
