package strictyaml

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// checkText checks the characters before the parser sees them. It returns
// error, not *Error, so that nil stays nil.
func checkText(data []byte, maxSize int) error {
	if len(data) > maxSize {
		line, column := position(data, maxSize)
		return &Error{Line: line, Column: column, Code: CodeSize,
			Message: fmt.Sprintf("%d bytes, the limit is %d", len(data), maxSize)}
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		code, reason := CodeEncoding, unclean(r, n, data[i+n:])
		if r == '%' && (i == 0 || data[i-1] == '\n') {
			// A line of text that begins like this is indented or quoted
			// elsewhere.
			code, reason = CodeDocument, "a directive"
		}
		if reason != "" {
			line, column := position(data, i)
			return &Error{Line: line, Column: column, Code: code, Message: reason}
		}
		i += n
	}
	return nil
}

// unclean says what is wrong with a character of n bytes before rest.
func unclean(r rune, n int, rest []byte) string {
	switch {
	case r == utf8.RuneError && n == 1:
		return "invalid UTF-8"
	case r == '\uFEFF':
		return "a byte order mark"
	case r == '\r' && !bytes.HasPrefix(rest, []byte("\n")):
		return "a carriage return without a line feed"
	case r == '\n', r == '\r', r == '\t':
		return ""
	case r < ' ', r >= 0x7f && r < 0xa0, r == '\uFFFE', r == '\uFFFF':
		// U+0085, one of these, is a line break only in YAML 1.1.
		return fmt.Sprintf("the control character %U", r)
	case r == '\u2028', r == '\u2029':
		return fmt.Sprintf("the line break %U, which only some readers recognize", r)
	case hidden(r):
		return fmt.Sprintf("the character %U, which makes text look other than it is", r)
	}
	return ""
}

// hidden reports whether a character is invisible, reorders its neighbours, or
// looks like an ordinary space: two names with and without it look alike.
func hidden(r rune) bool {
	if r < 0x80 {
		return false
	}
	return r == '\u2800' || unicode.In(r, unicode.Cf, unicode.Zs, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// position converts an offset into line and column.
func position(data []byte, offset int) (line, column int) {
	before := data[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}
