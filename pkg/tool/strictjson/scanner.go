package strictjson

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"
)

// Text is the input type of a document.
type Text interface{ string | []byte }

// Scanner reads one document value by value, for readers that know the expected
// structure: it makes no tree, and strings without escape sequences are slices
// of the document, not copies. It follows the grammar of RFC 8259.
//
// The first error is kept; after it, every method returns a zero value and does
// not advance, so that a reader can check [Scanner.Err] once, at the end. Two
// rules are left to the reader, which knows the keys: to refuse a duplicate
// key, and an unknown one.
//
//	s := strictjson.NewScanner(text)
//	s.Open('[')
//	for first := true; s.Next(first, ']'); first = false {
//		names = append(names, s.Text())
//	}
//	s.End()
//	return s.Err()
type Scanner[T Text] struct {
	limits limits
	free   *shape // for values without a known shape

	data  T
	pos   int
	depth int
	seen  int // values so far
	err   *Error
}

// NewScanner starts to read data. It checks the size and encoding of the whole
// document first.
func NewScanner[T Text](data T, opts ...Limit) *Scanner[T] {
	s := &Scanner[T]{limits: limitsOf(opts), free: opaque(), data: data, seen: 1}
	if int64(len(data)) > s.limits.size {
		s.FailAt(int(s.limits.size), CodeSize, "%d bytes, the limit is %d", len(data), s.limits.size)
		return s
	}
	s.checkEncoding()
	return s
}

// checkEncoding looks at the text before its grammar.
func (s *Scanner[T]) checkEncoding() {
	var nul int
	var mark, valid bool
	switch data := any(s.data).(type) {
	case string:
		nul, mark, valid = strings.IndexByte(data, 0), strings.HasPrefix(data, byteOrderMark), utf8.ValidString(data)
	case []byte:
		nul, mark, valid = bytes.IndexByte(data, 0), bytes.HasPrefix(data, []byte(byteOrderMark)), utf8.Valid(data)
	}
	switch {
	case mark:
		s.Fail(CodeEncoding, "a byte order mark at the start")
	case nul >= 0:
		s.FailAt(nul, CodeEncoding, "a NUL byte")
	case !valid:
		i := 0
		for r, n := decodeRune(s.data); r != utf8.RuneError || n != 1; r, n = decodeRune(s.data[i:]) {
			i += n
		}
		s.FailAt(i, CodeEncoding, "invalid UTF-8")
	}
}

const byteOrderMark = "\ufeff"

func decodeRune[T Text](text T) (r rune, size int) {
	return utf8.DecodeRuneInString(string(text[:min(len(text), utf8.UTFMax)]))
}

// Err is the first error, nil if there is none so far.
func (s *Scanner[T]) Err() error {
	if s.err == nil {
		return nil // not a typed nil *Error
	}
	return s.err
}

// Failed reports whether there was an error.
func (s *Scanner[T]) Failed() bool { return s.err != nil }

// Offset is how many bytes were read.
func (s *Scanner[T]) Offset() int { return s.pos }

// Fail ends reading at the current position.
func (s *Scanner[T]) Fail(code, format string, args ...any) { s.FailAt(s.pos, code, format, args...) }

// FailAt ends reading because of something at an earlier position.
func (s *Scanner[T]) FailAt(offset int, code, format string, args ...any) {
	if s.err == nil {
		s.err = &Error{Code: code, Offset: int64(offset), Message: fmt.Sprintf(format, args...)}
	}
}

// unexpected fails at a byte that the grammar does not allow.
func (s *Scanner[T]) unexpected(want string) {
	if s.pos >= len(s.data) {
		s.Fail(CodeSyntax, "unexpected end where %s should be", want)
		return
	}
	_, n := decodeRune(s.data[s.pos:])
	s.Fail(CodeSyntax, "unexpected %q where %s should be", string(s.data[s.pos:s.pos+n]), want)
}

// Peek skips white space and returns the next byte; 0, which no document
// contains, at the end.
func (s *Scanner[T]) Peek() byte {
	if s.err != nil {
		return 0
	}
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// Take skips tokens if exactly those follow: brackets, commas, colons and
// strings without escapes, with no white space between them. It is for readers
// that know how a document is usually written, and does not count values or
// depth.
func (s *Scanner[T]) Take(tokens string) bool { return s.word(tokens) || s.apart(tokens) }

// word skips text if exactly that follows.
func (s *Scanner[T]) word(text string) bool {
	if s.err != nil || len(s.data)-s.pos < len(text) || string(s.data[s.pos:s.pos+len(text)]) != text {
		return false
	}
	s.pos += len(text)
	return true
}

// apart skips tokens that may have white space before each.
func (s *Scanner[T]) apart(tokens string) bool {
	before := s.pos
	for n := 0; tokens != ""; tokens = tokens[n:] {
		if n = 1; tokens[0] == '"' {
			n = len(`""`) + strings.IndexByte(tokens[1:], '"')
		}
		if s.Peek() != tokens[0] || !s.word(tokens[:n]) {
			s.pos = before
			return false
		}
	}
	return s.err == nil
}

// Open begins an object or an array, depending on the bracket.
func (s *Scanner[T]) Open(bracket byte) {
	switch {
	case s.Peek() != bracket || s.err != nil:
		s.unexpected(string(bracket))
	case s.depth >= s.limits.depth:
		s.Fail(CodeDepth, "nested more than %d levels deep", s.limits.depth)
	default:
		s.depth++
		s.pos++
	}
}

// Next advances to the first or the next member or element and reports whether
// there is one. If not, it has skipped the closing bracket.
func (s *Scanner[T]) Next(first bool, bracket byte) bool {
	switch c := s.Peek(); {
	case s.err != nil:
		return false
	case c == bracket:
		s.pos++
		s.depth--
		return false
	case first:
	case c == ',':
		s.pos++
		s.Peek()
	case bracket == ']':
		s.unexpected("a comma or the end of the array")
		return false
	default:
		s.unexpected("a comma or the end of the object")
		return false
	}
	if s.seen++; s.limits.values > 0 && s.seen > s.limits.values {
		s.Fail(CodeValues, "more than %d values", s.limits.values)
		return false
	}
	return true
}

// Key reads the key of a member, unescaped, and the colon.
func (s *Scanner[T]) Key() (key T) {
	if s.Peek() != '"' {
		s.unexpected("a key")
		return key
	}
	key = s.text(true)
	if s.Peek() != ':' {
		s.unexpected("a colon")
		return key
	}
	s.pos++
	return key
}

// Skip skips one value of any kind and checks it by all rules: no duplicate
// keys, and no number that would lose value.
func (s *Scanner[T]) Skip() { s.value(s.free, false) }

// End requires that nothing follows.
func (s *Scanner[T]) End() {
	if s.Peek(); s.err == nil && s.pos < len(s.data) {
		s.Fail(CodeTrailing, "something follows the end of the value")
	}
}

// Marks iterates over the commas and opening brackets of raw that are not in a
// string, each with its nesting depth. It is for counting the contents of a
// document before anything is allocated for it, and does not check that raw is
// JSON.
func Marks(raw []byte) iter.Seq2[int, byte] {
	return func(yield func(level int, mark byte) bool) {
		level := 0
		for i := 0; i < len(raw); i++ {
			switch c := raw[i]; c {
			case '"':
				i = endOfString(raw, i+1)
			case '{', '[':
				if !yield(level, c) {
					return
				}
				level++
			case '}', ']':
				level--
			case ',':
				if !yield(level, c) {
					return
				}
			}
		}
	}
}

// endOfString returns the index of the quote that ends the string from i on.
func endOfString(raw []byte, i int) int {
	for i < len(raw) {
		switch i += Plain(raw[i:]); {
		case i == len(raw) || raw[i] == '"':
			return i
		case raw[i] == '\\':
			i++
		}
		i++
	}
	return i
}
