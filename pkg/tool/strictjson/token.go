package strictjson

import (
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text reads a string, unescaped.
func (s *Scanner[T]) Text() (text T) {
	if s.Peek() != '"' {
		s.unexpected("a string")
		return text
	}
	return s.text(true)
}

// text reads a string from its opening quote on. It unescapes only if the
// caller needs the value.
func (s *Scanner[T]) text(wanted bool) (text T) {
	s.pos++
	from := s.pos
	s.pos += Plain(s.data[from:])
	if s.char() == '"' {
		s.pos++
		return s.data[from : s.pos-1]
	}
	var plain []byte // the unescaped part so far
	for s.err == nil {
		s.pos += Plain(s.data[s.pos:])
		switch {
		case s.pos == len(s.data):
			s.unexpected("the end of the string")
		case s.data[s.pos] == '"':
			if s.pos++; wanted {
				return T(append(plain, s.data[from:s.pos-1]...))
			}
			return text
		case s.data[s.pos] == '\\':
			end := s.pos
			if r := s.escape(); wanted {
				plain = utf8.AppendRune(append(plain, s.data[from:end]...), r)
				from = s.pos
			}
		default:
			s.unexpected("text without control characters")
		}
	}
	return text
}

// Plain is the number of bytes of a JSON string before a quote, a backslash or
// a control character, or before the end of s. It checks eight bytes at a time:
// the lowest of the high bits that are set in a word is that of the first such
// byte.
func Plain[T Text](s T) (n int) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(s); n += 8 {
		at := s[n : n+8]
		word := uint64(at[0]) | uint64(at[1])<<8 | uint64(at[2])<<16 | uint64(at[3])<<24 |
			uint64(at[4])<<32 | uint64(at[5])<<40 | uint64(at[6])<<48 | uint64(at[7])<<56
		quote, escape := word^'"'*each, word^'\\'*each
		if hit := ((quote-each)&^quote | (escape-each)&^escape | (word-' '*each)&^word) & high; hit != 0 {
			return n + bits.TrailingZeros64(hit)/8
		}
	}
	for n < len(s) && s[n] != '"' && s[n] != '\\' && s[n] >= ' ' {
		n++
	}
	return n
}

// escape reads one escape sequence, or two that form a surrogate pair.
func (s *Scanner[T]) escape() rune {
	const written, meant = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	start := s.pos
	s.pos++
	if c := s.char(); c != 'u' {
		i := strings.IndexByte(written, c)
		if i < 0 {
			s.unexpected("an escape sequence")
			return utf8.RuneError
		}
		s.pos++
		return rune(meant[i])
	}
	unit := s.unicode()
	switch {
	case unit == 0:
		s.FailAt(start, CodeEncoding, `a NUL written \u0000`)
		return unit
	case !utf16.IsSurrogate(unit):
		return unit
	}
	if s.word(`\u`) {
		s.pos--
		if r := utf16.DecodeRune(unit, s.unicode()); r != utf8.RuneError {
			return r
		}
	}
	s.FailAt(start, CodeEncoding, "half of a surrogate pair")
	return utf8.RuneError
}

// unicode reads the u and its four hex digits.
func (s *Scanner[T]) unicode() (unit rune) {
	s.pos++
	for range 4 {
		digit := strings.IndexByte("0123456789abcdef", lower(s.char()))
		if digit < 0 {
			s.unexpected("a hex digit")
			return utf8.RuneError
		}
		unit = unit<<4 | rune(digit)
		s.pos++
	}
	return unit
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'F' {
		return c - 'A' + 'a'
	}
	return c
}

// char returns the next byte, which may be white space; 0 at the end.
func (s *Scanner[T]) char() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// Bool reads true or false.
func (s *Scanner[T]) Bool() bool {
	s.Peek()
	is := s.word("true")
	if !is && !s.word("false") {
		s.unexpected("true or false")
	}
	return is
}

// number reads a number, and checks that the target can represent it.
func (s *Scanner[T]) number(sh *shape) {
	start := s.pos
	s.one('-', '-')
	integer := true
	if !s.one('0', '0') {
		s.digits()
	}
	if s.one('.', '.') {
		integer = false
		s.digits()
	}
	if s.one('e', 'E') {
		integer = false
		s.one('+', '-')
		s.digits()
	}
	if s.err != nil {
		return
	}
	text := string(s.data[start:s.pos])
	if reason := loses(text, integer, sh); reason != "" {
		s.FailAt(start, CodeNumber, "number %s %s", quote(text, maxForeign), reason)
	}
}

// one skips the next byte if it is one of two.
func (s *Scanner[T]) one(a, b byte) bool {
	if c := s.char(); c != a && c != b {
		return false
	}
	s.pos++
	return true
}

// digits skips one or more digits.
func (s *Scanner[T]) digits() {
	start := s.pos
	for c := s.char(); c >= '0' && c <= '9'; c = s.char() {
		s.pos++
	}
	if s.pos == start {
		s.unexpected("a digit")
	}
}

// loses describes how a number would lose value in its target, "" if it does
// not.
func loses(text string, integer bool, sh *shape) string {
	switch sh.kind {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if _, err := strconv.ParseInt(text, 10, sh.bits); err != nil {
			return fmt.Sprintf("is not an integer of %d bits", sh.bits)
		}
		return ""
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if _, err := strconv.ParseUint(text, 10, sh.bits); err != nil {
			return fmt.Sprintf("is not an unsigned integer of %d bits", sh.bits)
		}
		return ""
	case reflect.Float32, reflect.Float64, reflect.Interface:
		if integer {
			return losesAsFloat(text, sh.bits)
		}
	}
	if integer {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return "is not an integer of 64 bits"
		}
		return ""
	}
	bits := 64
	if sh.kind == reflect.Float32 {
		bits = 32
	}
	f, err := strconv.ParseFloat(text, bits)
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	switch {
	case err != nil:
		return "is too large"
	case f == 0 && strings.ContainsAny(mantissa, "123456789"):
		return "is too close to zero"
	}
	return ""
}

// losesAsFloat checks an integer literal for a float target.
func losesAsFloat(text string, bits int) string {
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "is not an integer of 64 bits"
	}
	f := float64(i)
	if bits == 32 {
		f = float64(float32(i))
	}
	// 1<<63 is what the largest integers round up to; no int64 has that value.
	if f == 1<<63 || int64(f) != i {
		return fmt.Sprintf("cannot be represented exactly by a float of %d bits", bits)
	}
	return ""
}

// shortestInteger reports whether an integer key is in its canonical spelling.
func shortestInteger(key string) bool {
	if i, err := strconv.ParseInt(key, 10, 64); err == nil {
		return strconv.FormatInt(i, 10) == key
	}
	u, err := strconv.ParseUint(key, 10, 64)
	return err == nil && strconv.FormatUint(u, 10) == key
}
