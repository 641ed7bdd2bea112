package strictyaml

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

var (
	integerForm = pattern.Lazy(`^-?(?:0|[1-9][0-9]*)$`)
	numberForm  = pattern.Lazy(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)
	// doubtfulForm matches what some readers parse as a number although ours
	// may not: floats out of range and the sexagesimal numbers of YAML 1.1.
	doubtfulForm = pattern.Lazy(`^[-+]?(?:(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|0[box][0-9a-fA-F_]+)$`)
	// dateForm matches dates and times of YAML 1.1; our parser knows fewer.
	dateForm = pattern.Lazy(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?$`)
	// boolForm matches the booleans of YAML 1.1.
	boolForm = pattern.Lazy(`^(?:y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF|true|True|TRUE|false|False|FALSE)$`)
)

// plain reports whether n has no quotes, so that its type is guessed.
func plain(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

// mistakable reports whether some reader may parse n as anything but text. For
// example, in a list or mapping in brackets, a text that ends with a colon is
// the key of a mapping to some readers.
func mistakable(n *yaml.Node) bool {
	if !plain(n) {
		return false
	}
	return n.ShortTag() != "!!str" || strings.HasSuffix(n.Value, ":") ||
		slices.ContainsFunc([]func() *regexp.Regexp{boolForm, doubtfulForm, dateForm}, func(form func() *regexp.Regexp) bool { return form().MatchString(n.Value) })
}

func matchScalar(n *yaml.Node, t reflect.Type) error {
	switch {
	case readsText(t):
		return matchMethod(n, t)
	case t == reflect.TypeFor[time.Duration]():
		if _, err := time.ParseDuration(n.Value); err != nil || mistakable(n) {
			return refuse(n, CodeType, "%s is not a duration such as 90s or 2h30m", quote(n.Value))
		}
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		return matchText(n)
	case reflect.Interface:
		return matchAny(n)
	case reflect.Bool:
		if !plain(n) || n.Value != "true" && n.Value != "false" {
			return refuse(n, CodeType, "%s, want true or false without quotes", quote(n.Value))
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		_, err := strconv.ParseInt(n.Value, 10, t.Bits())
		return matchNumber(n, integerForm(), err)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		_, err := strconv.ParseUint(n.Value, 10, t.Bits())
		return matchNumber(n, integerForm(), err)
	case reflect.Float32, reflect.Float64:
		_, err := strconv.ParseFloat(n.Value, t.Bits())
		return matchNumber(n, numberForm(), err)
	default:
		return refuse(n, CodeType, "%s, want %s", quote(n.Value), describe(t))
	}
	return nil
}

func matchText(n *yaml.Node) error {
	if mistakable(n) {
		return refuse(n, CodeType, "%s is ambiguous: some YAML readers do not read it as text; quote it", quote(n.Value))
	}
	return nil
}

// matchMethod calls the type's own method here, because the decoder would lose
// the position of the error. Dates need no quotes where a time is expected.
func matchMethod(n *yaml.Node, t reflect.Type) error {
	if t != reflect.TypeFor[time.Time]() {
		if err := matchText(n); err != nil {
			return err
		}
	}
	err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.Value))
	if bad := (*time.ParseError)(nil); errors.As(err, &bad) {
		return refuse(n, CodeType, "%s: want a time such as 2027-06-30T00:00:00Z", quote(n.Value))
	}
	if err != nil {
		return causedBy(n, err)
	}
	return nil
}

// matchAny accepts values that have the same type for all readers.
func matchAny(n *yaml.Node) error {
	if plain(n) && (n.Value == "true" || n.Value == "false") {
		return nil
	}
	if plain(n) && numberForm().MatchString(n.Value) {
		var err error
		if integerForm().MatchString(n.Value) {
			_, err = strconv.ParseInt(n.Value, 10, 64)
		} else {
			_, err = strconv.ParseFloat(n.Value, 64)
		}
		return matchNumber(n, numberForm(), err)
	}
	return matchText(n)
}

func matchNumber(n *yaml.Node, form *regexp.Regexp, err error) error {
	switch {
	case !plain(n):
		return refuse(n, CodeType, "the text %s, want a number; remove the quotes", quote(n.Value))
	case !form.MatchString(n.Value) && form == integerForm():
		return refuse(n, CodeType, "%s is not an integer in plain decimal digits", quote(n.Value))
	case !form.MatchString(n.Value):
		return refuse(n, CodeType, "%s is not a decimal number", quote(n.Value))
	case err != nil:
		return refuse(n, CodeType, "%s is out of range", quote(n.Value))
	}
	return nil
}

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
