package strictjson

import (
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
)

// str scans a string. The document is known to be valid UTF-8 without NUL.
func (s *scanner) str() *Error {
	for s.pos++; ; {
		s.pos += Plain(s.data[s.pos:])
		switch s.peek() {
		case 0:
			return s.unexpected("the end of the string")
		case '"':
			s.pos++
			return nil
		case '\\':
			if err := s.escape(); err != nil {
				return err
			}
		default:
			return s.unexpected("text without control characters")
		}
	}
}

// Plain is how many bytes of a string in JSON come before a quote, a backslash
// or a control character, or before the end of s. It looks at eight at a time:
// of the highest bits in a word, the lowest one that is set is that of the
// first such byte.
func Plain[T string | []byte](s T) (n int) {
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

// escape scans one escape sequence, or two that form a surrogate pair.
func (s *scanner) escape() *Error {
	start := s.pos
	s.pos++
	if c := s.peek(); c != 'u' {
		if c == 0 || strings.IndexByte(`"\/bfnrt`, c) < 0 {
			return s.unexpected("an escape sequence")
		}
		s.pos++
		return nil
	}
	unit, err := s.unicode()
	switch {
	case err != nil:
		return err
	case unit == 0:
		return s.failAt(start, CodeEncoding, `a NUL written \u0000`)
	case !utf16.IsSurrogate(unit):
		return nil
	}
	if s.pos+1 < len(s.data) && s.data[s.pos] == '\\' && s.data[s.pos+1] == 'u' {
		s.pos++
		low, err := s.unicode()
		if err != nil {
			return err
		}
		if utf16.DecodeRune(unit, low) != '\uFFFD' {
			return nil
		}
	}
	return s.failAt(start, CodeEncoding, "half of a surrogate pair")
}

// unicode scans the u and its four hex digits.
func (s *scanner) unicode() (rune, *Error) {
	s.pos++
	var unit rune
	for range 4 {
		digit := strings.IndexByte("0123456789abcdef", lower(s.peek()))
		if digit < 0 {
			return 0, s.unexpected("a hex digit")
		}
		unit = unit<<4 | rune(digit)
		s.pos++
	}
	return unit, nil
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'F' {
		return c - 'A' + 'a'
	}
	return c
}

// number scans a number and makes sure that the target can hold it.
func (s *scanner) number(sh *shape) *Error {
	start := s.pos
	s.take('-')
	if !s.take('0') && s.digits() == 0 {
		return s.unexpected("a digit")
	}
	integer := true
	if s.take('.') {
		integer = false
		if s.digits() == 0 {
			return s.unexpected("a digit")
		}
	}
	if s.take('e') || s.take('E') {
		integer = false
		if !s.take('+') {
			s.take('-')
		}
		if s.digits() == 0 {
			return s.unexpected("a digit")
		}
	}
	text := string(s.data[start:s.pos])
	if reason := loses(text, integer, sh); reason != "" {
		return s.failAt(start, CodeNumber, fmt.Sprintf("number %s %s", quote(text, maxForeign), reason))
	}
	return nil
}

func (s *scanner) digits() (n int) {
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
		n++
	}
	return n
}

// loses says what would happen to a number in its target, "" if no harm.
func loses(text string, integer bool, sh *shape) string {
	switch sh.kind {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if _, err := strconv.ParseInt(text, 10, sh.bits); err != nil {
			return fmt.Sprintf("is no integer of %d bits", sh.bits)
		}
		return ""
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if _, err := strconv.ParseUint(text, 10, sh.bits); err != nil {
			return fmt.Sprintf("is no unsigned integer of %d bits", sh.bits)
		}
		return ""
	case reflect.Float32, reflect.Float64, reflect.Interface:
		if integer {
			return losesAsFloat(text, sh.bits)
		}
	}
	if integer {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return "is no integer of 64 bits"
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

// losesAsFloat judges an integer literal that a float has to hold exactly.
func losesAsFloat(text string, bits int) string {
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "is no integer of 64 bits"
	}
	f := float64(i)
	if bits == 32 {
		f = float64(float32(i))
	}
	// 1<<63 is what the largest integers round up to; it has no int64.
	if f == 1<<63 || int64(f) != i {
		return fmt.Sprintf("cannot be held exactly by a float of %d bits", bits)
	}
	return ""
}

// shortestInteger reports whether an integer key has no other spelling.
func shortestInteger(key string) bool {
	if i, err := strconv.ParseInt(key, 10, 64); err == nil {
		return strconv.FormatInt(i, 10) == key
	}
	u, err := strconv.ParseUint(key, 10, 64)
	return err == nil && strconv.FormatUint(u, 10) == key
}
