package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The codes of an [Error].
const (
	CodeDupKey       = "JSON_DUP_KEY"       // CodeDupKey: two equal keys in one object.
	CodeUnknownField = "JSON_UNKNOWN_FIELD" // CodeUnknownField: a key that the target does not have.
	CodeEncoding     = "ENCODING"           // CodeEncoding: invalid UTF-8 or forbidden characters.
	CodeTrailing     = "JSON_TRAILING"      // CodeTrailing: something follows the value.
	CodeDepth        = "LIMIT_DEPTH"        // CodeDepth: nested too deeply.
	CodeSize         = "LIMIT_SIZE"         // CodeSize: too many bytes.
	CodeValues       = "LIMIT_VALUES"       // CodeValues: too many values.
	CodeNumber       = "JSON_NUMBER"        // CodeNumber: a number would lose value.
	CodeSyntax       = "JSON_SYNTAX"        // CodeSyntax: not JSON.
	CodeType         = "JSON_TYPE"          // CodeType: JSON of another type, or refused by the type.
)

// maxForeign bounds how much of a document is repeated in a message.
const maxForeign = 200

// Error says why and where a document was refused. All its text is safe to
// print: quotations of the document are escaped and shortened.
type Error struct {
	Code    string // one of the codes of this package
	Offset  int64  // in bytes from the start; -1 if only the type knows
	Path    string // of the value, as in subject[0].name; "" for the whole document
	Message string // the reason
	Err     error  // the cause, if a method of the target type refused the value
}

// Error formats place, reason and code.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("reading JSON")
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " at byte %d", e.Offset)
	}
	fmt.Fprintf(&b, ": %s (%s)", e.Message, e.Code)
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// within prepends the path of the enclosing value.
func (e *Error) within(place string) *Error {
	switch {
	case strings.HasPrefix(e.Path, "…"):
		return e // too long to add more
	case len(place)+len(e.Path) > maxForeign:
		e.Path = "…" + e.Path
	case e.Path == "" || e.Path[0] == '[':
		e.Path = place + e.Path
	default:
		e.Path = place + "." + e.Path
	}
	return e
}

// keyPlace is how a key appears in a path.
func keyPlace[T Text](key T) string {
	for i := range len(key) {
		c := key[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return "[" + quote(string(key), 64) + "]"
		}
	}
	if len(key) == 0 || len(key) > 64 {
		return "[" + quote(string(key), 64) + "]"
	}
	return string(key)
}

// quote makes text of the document printable.
func quote(s string, limit int) string {
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "…"
	}
	return strconv.Quote(s)
}

// decodeError explains why encoding/json refused a document that the scanner
// accepted.
func decodeError(err error) *Error {
	e := &Error{Code: CodeType, Offset: -1, Err: err}
	if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
		found, _, _ := strings.Cut(mismatch.Value, " ")
		e.Offset = mismatch.Offset
		e.Message = fmt.Sprintf("a JSON %s cannot become a %s", found, mismatch.Type)
		if mismatch.Field != "" {
			e.Message += " in " + quote(mismatch.Field, maxForeign)
		}
		return e
	}
	// The message of the type's own method, which may quote the document.
	e.Message = err.Error()
	if len(e.Message) > 2*maxForeign || strings.ContainsFunc(e.Message, func(r rune) bool { return !strconv.IsPrint(r) }) {
		e.Message = quote(e.Message, maxForeign)
	}
	return e
}
