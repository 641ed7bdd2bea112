package signoff

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Section is a heading with the text below it.
type Section struct {
	Title string
	Level int
	Line  int

	from, to int // its own lines, without the heading
	end      int // end of its lines including subsections
}

// Document is a parsed document, not yet checked.
type Document struct {
	page     *page
	sections []Section
	hidden   map[string]int // headings in comments: first line, by key
	byKey    map[string]int // index of the first section with a title
}

var heading = pattern.Lazy(`^ {0,3}(#{1,6})(?:[ \t]+(.*))?$`)

// ParseDocument reads a document. It only fails if the document is too large; [Check]
// finds other faults.
func ParseDocument(raw []byte) (*Document, error) {
	p, err := parsePage("document", raw)
	if err != nil {
		return nil, err
	}
	d := &Document{page: p, hidden: map[string]int{}, byKey: map[string]int{}}
	for i, l := range p.lines {
		if level, title := headingOf(l.hidden); level > 0 && !l.fenced {
			if _, seen := d.hidden[key(title)]; !seen {
				d.hidden[key(title)] = l.number
			}
		}
		level, title := headingOf(l.text)
		if level == 0 || l.fenced {
			continue
		}
		if len(d.sections) == maxHeadings {
			return nil, verdict.Refuse(verdict.Limit, "document", "more than %d headings", maxHeadings)
		}
		d.sections = append(d.sections, Section{Title: title, Level: level, Line: l.number, from: i + 1})
	}
	d.measure()
	return d, nil
}

// headingOf is the level and the title of a heading; zero for any other line.
func headingOf(text string) (int, string) {
	m := heading().FindStringSubmatch(strings.TrimRight(text, " \t"))
	if m == nil {
		return 0, ""
	}
	title := strings.TrimSpace(m[2])
	if bare := strings.TrimRight(title, "#"); bare == "" || strings.HasSuffix(bare, " ") {
		title = strings.TrimSpace(bare) // marks at the end of a heading
	}
	return len(m[1]), title
}

// measure finds the ends of sections.
func (d *Document) measure() {
	n := len(d.page.lines)
	var open []int
	for i := range d.sections {
		s := &d.sections[i]
		s.to, s.end = n, n
		if i+1 < len(d.sections) {
			s.to = d.sections[i+1].from - 1
		}
		for len(open) > 0 && d.sections[open[len(open)-1]].Level >= s.Level {
			d.sections[open[len(open)-1]].end = s.from - 1
			open = open[:len(open)-1]
		}
		open = append(open, i)
		if k := key(s.Title); k != "" {
			if _, twice := d.byKey[k]; !twice {
				d.byKey[k] = i
			}
		}
	}
}

// Title is the title of the document, as it is written.
func (d *Document) Title() string {
	return slice.First(d.sections, func(s Section) bool { return s.Level == 1 }).Title
}

func (d *Document) find(title string) (Section, bool) {
	i, ok := d.byKey[key(title)]
	if !ok {
		return Section{}, false
	}
	return d.sections[i], true
}

// lines are the lines from, to (exclusive).
func (d *Document) lines(from, to int) []line { return d.page.lines[from:to] }
