package signoff

import (
	"html"
	"regexp"
	"strings"
	"unicode"
)

// State says what became of a section that is required.
type State string

// The states, of which Filled alone is enough.
const (
	Filled      State = "filled"
	Missing     State = "missing"
	Commented   State = "commented out"
	Empty       State = "empty"
	Placeholder State = "a placeholder"
	Unchanged   State = "unchanged template text"
)

// Judged is a section that is required, and what became of it.
type Judged struct {
	Title string
	State State
	Line  int // where the document has it, 0 where it does not
}

// Sections judges every section that a template requires at a stage.
func Sections(d *Document, t *Template, at Stage) []Judged {
	var list []Judged
	for _, r := range t.required(at) {
		list = append(list, d.judge(r.Title, t))
	}
	return list
}

// judge says what became of one section. Present is not filled: what counts is
// a line that somebody wrote. Where a section's own lines say nothing, those
// of its subsections speak for it; a line that says that nothing is said yet
// outweighs whatever stands beside it.
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

// anyFilled reports whether a subsection has a line of its own.
func (d *Document) anyFilled(of Section, t *Template) bool {
	for _, s := range d.sections {
		if s.from > of.from && s.from <= of.end && d.weigh(d.lines(s.from, s.to), t) == Filled {
			return true
		}
	}
	return false
}

// weigh says what lines amount to.
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

// weigh finds out what a line is, whatever the template says.
func (l *line) weigh() {
	l.words, l.weight = sentence(l.text), Filled
	switch level, _ := headingOf(l.text); {
	case level > 0 && !l.fenced, !says(l.words, l.fenced):
		l.weight = Empty
	case unfilled.MatchString(l.words):
		l.weight = Placeholder
	}
}

// says reports whether a line says anything that can be seen: marks that only
// divide, the end of a comment that had ended, tags and links with nothing in
// them, and definitions of links do not.
func says(text string, fenced bool) bool {
	if strings.HasPrefix(text, "[") && strings.Contains(text, "]: ") {
		return false
	}
	if !fenced {
		text = html.UnescapeString(mute.ReplaceAllString(text, ""))
	}
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.L, unicode.N, unicode.So, unicode.Sc) && !strings.ContainsRune(unseen, r)
	})
}

var (
	// mute matches tags that show nothing of themselves, links without words
	// and pictures without an address. What is no tag of HTML is a word that
	// the template has in such brackets.
	mute = regexp.MustCompile(`(?i)</?(?:a|b|br|center|code|details|div|em|font|h[1-6]|hr|i|kbd|li|ol|p|pre|small|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul)(?:\s[^<>]*)?/?>` +
		`|!\[[^\]]*\]\(\s*\)|\[\s*\]\([^)]*\)`)
)

// unseen are letters and signs that look like nothing.
const unseen = "\u115f\u1160\u2800\u3164\uffa0"
