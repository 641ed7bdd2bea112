package signoff

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode"
)

var (
	tocEntry = regexp.MustCompile(`^\s*[-*+] +\[(.*)\]\(#([^)]*)\)\s*$`)
)

// tag matches the tags that generators of tables of contents put around code.
var tag = regexp.MustCompile(`</?[a-z]+>`)

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
					if m := tocEntry.FindStringSubmatch(l.text); m != nil && l.number > end && l.number < b.line {
						list = append(list, entry{html.UnescapeString(tag.ReplaceAllString(shown(m[1]), "")), m[2]})
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
