package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// The codes of an [Error].
const (
	CodeAlias      = "YAML_ALIAS"       // CodeAlias: an anchor, an alias or a merge key.
	CodeTag        = "YAML_TAG"         // CodeTag: an explicit tag.
	CodeDupKey     = "YAML_DUP_KEY"     // CodeDupKey: two equal keys in one mapping.
	CodeUnknownKey = "YAML_UNKNOWN_KEY" // CodeUnknownKey: a key that the target does not have.
	CodeDocument   = "YAML_DOCUMENT"    // CodeDocument: not exactly one document, or a directive.
	CodeType       = "YAML_TYPE"        // CodeType: a value of another type, or of an ambiguous one.
	CodeSyntax     = "YAML_SYNTAX"      // CodeSyntax: not YAML.
	CodeEncoding   = "ENCODING"         // CodeEncoding: invalid UTF-8 or forbidden characters.
	CodeSize       = "LIMIT_SIZE"       // CodeSize: too many bytes or keys.
	CodeDepth      = "LIMIT_DEPTH"      // CodeDepth: nested too deeply.
)

// maxForeign bounds how much of a document is repeated in a message.
const maxForeign = 200

// Error says why and where a document was refused. All its text is safe to
// print: quotations of the document are escaped and shortened.
type Error struct {
	Line    int    // counted from 1
	Column  int    // in characters, counted from 1
	Code    string // one of the codes of this package
	Message string // the reason
	Err     error  // the cause, if a method of the target type refused the value
}

// Error formats place, reason and code.
func (e *Error) Error() string {
	return fmt.Sprintf("reading YAML at %d:%d: %s (%s)", e.Line, e.Column, e.Message, e.Code)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func refuse(n *yaml.Node, code, format string, args ...any) *Error {
	return &Error{Line: max(n.Line, 1), Column: max(n.Column, 1), Code: code, Message: fmt.Sprintf(format, args...)}
}

// causedBy makes the error about n from that of a type's own method. If that
// method used this package, its error has the better position.
func causedBy(n *yaml.Node, err error) *Error {
	if inner := (*Error)(nil); errors.As(err, &inner) {
		return inner
	}
	e := refuse(n, CodeType, "%s", tame(err.Error()))
	e.Err = err
	return e
}

// tame makes a foreign message printable; it may quote the document.
func tame(s string) string {
	if len(s) > 2*maxForeign || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return quote(s)
	}
	return s
}

// quote makes text of the document printable.
func quote(s string) string {
	if len(s) > maxForeign {
		return strconv.Quote(s[:maxForeign]) + "…"
	}
	return strconv.Quote(s)
}

// The parser gives positions only in the text of its errors, and none for the
// first line and for aliases. If the form of the text changes, positions become
// less precise, but the document is still refused.
var (
	parserText   = pattern.Lazy(`^yaml: (?:line ([0-9]+): )?(.*)$`)
	unknownAlias = pattern.Lazy(`^unknown anchor '(.*)' referenced$`)
)

// syntaxError explains why the parser refused data.
func syntaxError(data []byte, err error) *Error {
	e := &Error{Line: 1, Column: 1, Code: CodeSyntax, Message: tame(err.Error())}
	lines := bytes.Split(data, []byte("\n"))
	if m := parserText().FindStringSubmatch(err.Error()); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			e.Line = min(max(line, 1), len(lines))
		}
		e.Message = tame(m[2])
		if alias := unknownAlias().FindStringSubmatch(m[2]); alias != nil {
			e.Code, e.Message = CodeAlias, "an alias; write the value itself"
			e.Line, e.Column = position(data, max(bytes.Index(data, []byte("*"+alias[1])), 0))
			return e
		}
	}
	// A tab in the indentation is the usual culprit, and hard to see. The
	// parser may name the line before or after.
	for i := max(e.Line-2, 0); i < min(e.Line+1, len(lines)); i++ {
		if space := indentation(lines[i]); bytes.IndexByte(space, '\t') >= 0 {
			e.Line, e.Column = i+1, bytes.IndexByte(space, '\t')+1
			e.Message = "a tab in the indentation, use spaces: " + e.Message
			return e
		}
	}
	e.Column = len(indentation(lines[e.Line-1])) + 1
	return e
}

func indentation(line []byte) []byte {
	return line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
}

// At makes an error for a reader that parsed a document and refuses its
// contents: it has the line and column of the value at the path, or of the
// deepest existing part of the path. Keys are strings and list indexes are
// ints. The text must be one that [Unmarshal] accepted.
func At(data []byte, path []any, code, message string) *Error {
	node := &yaml.Node{Line: 1, Column: 1}
	if root, err := parse(data); err == nil {
		node = follow(root, path)
	}
	where := ""
	for _, step := range path {
		switch step := step.(type) {
		case int:
			where += "[" + strconv.Itoa(step) + "]"
		case string:
			if where != "" {
				where += "."
			}
			where += tame(step)
		}
	}
	if where != "" {
		message = where + ": " + message
	}
	return &Error{Line: max(node.Line, 1), Column: max(node.Column, 1), Code: code, Message: message}
}

// follow walks a path as far as it exists.
func follow(n *yaml.Node, path []any) *yaml.Node {
	for _, step := range path {
		next := child(n, step)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

func child(n *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	case string:
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
