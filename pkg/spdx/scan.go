package spdx

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/strictjson"
)

// maxDepth is how deeply arrays and objects may be nested.
const maxDepth = 64

// scanner reads JSON in one pass, as strictly as package strictjson: one
// reading only, or none. It exists for the size of these documents: strings
// are cut out of the text, nothing is decoded twice and nothing by reflection.
// The first offence against the form ends it; see [scanner.stopped].
type scanner struct {
	s     string
	pos   int
	depth int
	err   *formError
}

// formError is an offence against the form. Its codes are those of strictjson.
type formError struct {
	code   string
	offset int
	reason string
}

func (e *formError) Error() string {
	return fmt.Sprintf("reading JSON at byte %d: %s (%s)", e.offset, e.reason, e.code)
}

// begin checks what holds for the text as a whole.
func (s *scanner) begin() {
	switch {
	case strings.HasPrefix(s.s, "\ufeff"):
		s.fail("ENCODING", "a byte order mark")
	case !utf8.ValidString(s.s):
		s.fail("ENCODING", "the text is not UTF-8")
	case strings.IndexByte(s.s, 0) >= 0:
		s.fail("ENCODING", "a NUL byte")
	}
}

// end checks that nothing follows the value.
func (s *scanner) end() {
	s.space()
	if s.err == nil && s.pos < len(s.s) {
		s.fail("JSON_TRAILING", "something follows the value")
	}
}

func (s *scanner) stopped() bool { return s.err != nil }

// fail keeps the first offence.
func (s *scanner) fail(code, format string, args ...any) {
	if s.err == nil {
		s.err = &formError{code: code, offset: s.pos, reason: fmt.Sprintf(format, args...)}
	}
}

func (s *scanner) space() {
	for s.pos < len(s.s) {
		switch s.s[s.pos] {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek is the next byte that is no white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos < len(s.s) && s.err == nil {
		return s.s[s.pos]
	}
	return 0
}

// eat takes the next byte if it is c.
func (s *scanner) eat(c byte) bool {
	if s.peek() == c && c != 0 {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) want(c byte) {
	if !s.eat(c) {
		s.fail("JSON_SYNTAX", "want %q", string(c))
	}
}

// next steps to the next element of an array or object and says whether there
// is one. The opening bracket has been taken.
func (s *scanner) next(first bool, shut byte) bool {
	if s.err != nil {
		return false
	}
	switch c := s.peek(); {
	case c == shut:
		s.pos++
		s.depth--
		return false
	case first:
	case c != ',':
		s.want(',') // says so
	default:
		s.pos++
		if s.peek() == shut {
			s.fail("JSON_SYNTAX", "a comma before %q", string(shut))
		}
	}
	return s.err == nil
}

func (s *scanner) open(c byte) {
	s.want(c)
	if s.depth++; s.depth > maxDepth {
		s.fail("LIMIT_DEPTH", "nested more than %d levels deep", maxDepth)
	}
}

// key reads the key of a member and its colon.
func (s *scanner) key() string {
	k := s.str()
	s.want(':')
	return k
}

// str reads a string.
func (s *scanner) str() string {
	if s.peek() != '"' {
		s.fail("JSON_SYNTAX", "want a string")
		return ""
	}
	s.pos++
	start := s.pos
	i := start + strictjson.Plain(s.s[start:])
	if i == len(s.s) {
		s.fail("JSON_SYNTAX", "a string without end")
		return ""
	}
	switch s.s[i] {
	case '"':
		s.pos = i + 1
		return s.s[start:i]
	case '\\':
		s.pos = i
		return s.escaped(start)
	}
	s.pos = i
	s.fail("JSON_SYNTAX", "a control character in a string")
	return ""
}

// escaped reads on from the first escape sequence of a string.
func (s *scanner) escaped(start int) string {
	var b strings.Builder
	b.WriteString(s.s[start:s.pos])
	for s.pos < len(s.s) && s.err == nil {
		switch c := s.s[s.pos]; {
		case c == '"':
			s.pos++
			return b.String()
		case c == '\\':
			b.WriteRune(s.escape())
		case c < ' ':
			s.fail("JSON_SYNTAX", "a control character in a string")
		default:
			b.WriteByte(c)
			s.pos++
		}
	}
	s.fail("JSON_SYNTAX", "a string without end")
	return ""
}

// escape reads one escape sequence, or two that form a surrogate pair.
func (s *scanner) escape() rune {
	const plain, meant = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if s.pos+1 < len(s.s) {
		if at := strings.IndexByte(plain, s.s[s.pos+1]); at >= 0 {
			s.pos += 2
			return rune(meant[at])
		}
	}
	unit := s.unicode()
	switch {
	case unit == 0:
		s.fail("ENCODING", `a NUL written \u0000`)
	case utf16.IsSurrogate(unit):
		pair := utf16.DecodeRune(unit, s.unicode())
		if pair == utf8.RuneError {
			s.fail("ENCODING", "half of a surrogate pair")
		}
		return pair
	}
	return unit
}

// unicode reads \uXXXX.
func (s *scanner) unicode() rune {
	if s.pos+6 <= len(s.s) && s.s[s.pos:s.pos+2] == `\u` {
		digits := s.s[s.pos+2 : s.pos+6]
		if n, err := strconv.ParseUint(digits, 16, 16); err == nil && strings.Trim(digits, "0123456789abcdefABCDEF") == "" {
			s.pos += 6
			return rune(n)
		}
	}
	if s.pos < len(s.s) && s.s[s.pos] != '\\' {
		s.fail("ENCODING", "half of a surrogate pair")
	}
	s.fail("JSON_SYNTAX", "no escape sequence")
	return utf8.RuneError
}

// word reads true, false or null.
func (s *scanner) word(w string) bool {
	s.space()
	if !strings.HasPrefix(s.s[s.pos:], w) {
		s.fail("JSON_SYNTAX", "no value")
		return false
	}
	s.pos += len(w)
	return true
}

// number reads a number, which none of ours needs.
func (s *scanner) number() {
	s.space()
	start := s.pos
	for s.pos < len(s.s) && strings.IndexByte("+-.eE0123456789", s.s[s.pos]) >= 0 {
		s.pos++
	}
	if text := s.s[start:s.pos]; !isNumber(text) {
		s.pos = start
		s.fail("JSON_SYNTAX", "no value")
	} else if !keepsValue(text) {
		s.pos = start
		s.fail("JSON_NUMBER", "a number that would lose value")
	}
}

// isNumber is the grammar of RFC 8259.
func isNumber(t string) bool {
	t = strings.TrimPrefix(t, "-")
	digits := func(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
	n := digits(t)
	if n == 0 || (n > 1 && t[0] == '0') {
		return false
	}
	if t = t[n:]; strings.HasPrefix(t, ".") {
		if n = digits(t[1:]); n == 0 {
			return false
		}
		t = t[1+n:]
	}
	if t == "" {
		return true
	}
	if t[0] != 'e' && t[0] != 'E' {
		return false
	}
	t = t[1:]
	if t != "" && (t[0] == '+' || t[0] == '-') {
		t = t[1:]
	}
	return t != "" && digits(t) == len(t)
}

func keepsValue(t string) bool {
	if strings.Trim(t, "-0123456789") == "" {
		_, err := strconv.ParseInt(t, 10, 64)
		return err == nil
	}
	_, err := strconv.ParseFloat(t, 64)
	return err == nil
}

// skip passes over one value of any kind, as strictly as those that are read.
func (s *scanner) skip() {
	switch c := s.peek(); c {
	case '{':
		s.open('{')
		seen := map[string]bool{}
		for first := true; s.next(first, '}'); first = false {
			k := s.key()
			if seen[k] {
				s.fail("JSON_DUP_KEY", "the key %s is there twice", quote(k))
			}
			seen[k] = true
			s.skip()
		}
	case '[':
		s.open('[')
		for first := true; s.next(first, ']'); first = false {
			s.skip()
		}
	case '"':
		s.str()
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
}
