package signoff

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// line is one line of a document: its visible text, and the text in comments.
type line struct {
	number int
	text   string
	hidden string
	fenced bool // in a code fence, or a mark of one
	words  string
	weight State // of the line alone, without the template
}

// block is a comment: where it begins, and whether it ends.
type block struct {
	line   int
	text   string
	closed bool
}

// page is a document line by line.
type page struct {
	lines      []line
	blocks     []block
	directives []directive
	broken     []int // lines that are not UTF-8
	// scraped says that the text was copied from a web page: indentation is lost,
	// and the nesting of items unknown.
	scraped bool
}

// parsePage splits a text. Comments hide text, fences show it; a mark of one has no
// meaning inside of the other.
func parsePage(what string, raw []byte) (*page, error) {
	if len(raw) > MaxDocument {
		return nil, verdict.Refuse(verdict.Limit, what, "%d bytes, the limit is %d", len(raw), MaxDocument)
	}
	if n := bytes.Count(raw, []byte("\n")); n > maxLines {
		return nil, verdict.Refuse(verdict.Limit, what, "%d lines, the limit is %d", n, maxLines)
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	texts := strings.Split(string(raw), "\n")
	p := &page{}
	first := withoutChrome(texts)
	p.scraped = first > 0
	s := &splitter{page: p}
	for i, text := range texts[first:] {
		if text = strings.TrimSuffix(text, "\r"); len(text) > maxLine {
			return nil, verdict.Refuse(verdict.Limit, what, "line %d has %d bytes, the limit is %d", first+i+1, len(text), maxLine)
		}
		if !utf8.ValidString(text) {
			p.broken = append(p.broken, first+i+1)
			text = strings.ToValidUTF8(text, "\ufffd")
		}
		s.add(line{number: first + i + 1}, text)
	}
	for i := range p.lines {
		p.lines[i].weigh() // once, because sections are judged repeatedly
	}
	return p, nil
}

// minGutter is the lowest number of consecutive line numbers that count as the gutter of
// a web page.
const minGutter = 10

// withoutChrome is the number of lines before the document in a text that was copied from
// a web page: the surrounding page, and a column of line numbers.
func withoutChrome(texts []string) int {
	const lookAhead = 200 // lines of chrome
	for i := range min(len(texts), lookAhead) {
		n := 0
		for i+n < len(texts) && strings.TrimRight(texts[i+n], "\r") == strconv.Itoa(n+1) {
			n++
		}
		if n >= minGutter {
			return i + n
		}
	}
	return 0
}

// splitter splits a text line by line.
type splitter struct {
	*page
	fence   string // the mark that ends the fence, "" outside of one
	comment bool   // inside a comment that an earlier line began
}

var fenceMark = pattern.Lazy("^ {0,3}(`{3,}|~{3,})(.*)$")

func (s *splitter) add(l line, text string) {
	if !s.comment {
		if s.fenced(text) {
			l.text, l.fenced = text, true
			s.lines = append(s.lines, l)
			return
		}
		if d, rest, is := parseDirective(text); is {
			d.line = l.number
			s.directives = append(s.directives, d)
			text = rest
		}
	}
	l.text, l.hidden = s.split(l.number, text)
	s.lines = append(s.lines, l)
}

// fenced reports whether a line belongs to a fence, and keeps track of fences.
func (s *splitter) fenced(text string) bool {
	mark := fenceMark().FindStringSubmatch(text)
	switch {
	case s.fence == "" && mark == nil:
		return false
	case s.fence == "" && mark[1][0] == '`' && strings.Contains(mark[2], "`"):
		return false // a span of code on one line
	case s.fence == "":
		s.fence = mark[1]
	case len(mark) == 3 && strings.HasPrefix(mark[1], s.fence) && strings.TrimSpace(mark[2]) == "":
		s.fence = ""
	}
	return true
}

// split separates comments from a line. As in HTML, a comment ends at the first end mark,
// however many begin before it.
func (s *splitter) split(number int, text string) (shown, hidden string) {
	var seen, hid strings.Builder
	for text != "" {
		if s.comment {
			inside, rest, closed := strings.Cut(text, "-->")
			hid.WriteString(inside)
			last := &s.blocks[len(s.blocks)-1]
			if len(last.text) < maxBlock {
				last.text += inside + "\n"
			}
			if s.comment, last.closed, text = !closed, closed, rest; !closed {
				break
			}
			continue
		}
		at := opening(text)
		if at < 0 {
			seen.WriteString(text)
			break
		}
		seen.WriteString(text[:at])
		text = text[at+len("<!--"):]
		s.comment = true
		s.blocks = append(s.blocks, block{line: number})
	}
	return seen.String(), hid.String()
}

// maxBlock bounds how much of a comment is kept.
const maxBlock = 200

// opening is the index of a comment start outside of code spans, or negative.
func opening(text string) int {
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "<!--"):
			return i
		case text[i] == '`':
			ticks := text[i : len(text)-len(strings.TrimLeft(text[i:], "`"))]
			i += len(ticks)
			if end := strings.Index(text[i:], ticks); end >= 0 {
				i += end + len(ticks)
			}
		default:
			i++
		}
	}
	return -1
}
