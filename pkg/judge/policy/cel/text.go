package cel

import (
	"fmt"
	"strings"

	lang "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
)

// checkText refuses forbidden text before the rule is parsed.
func checkText(text string) error {
	if len(text) > maxText {
		return &Error{1, 1, fmt.Sprintf("the rule is %d bytes long, the limit is %d", len(text), maxText)}
	}
	if strings.TrimSpace(text) == "" {
		return &Error{1, 1, "the rule is empty"}
	}
	line, column := 1, 1
	for i := range len(text) {
		switch b := text[i]; {
		case b == '\n':
			line, column = line+1, 0
		case b == '{' || b == '}':
			return &Error{line, column, fmt.Sprintf("%q: placeholders are not replaced in rules; write version + %q", b, "…")}
		case b != '\t' && (b < ' ' || b > '~'):
			return &Error{line, column, fmt.Sprintf("byte 0x%02x is not printable ASCII; "+
				`write \u and four digits inside a text`, b)}
		}
		column++
	}
	return checkComments(text)
}

// checkComments refuses comments. A policy is YAML, and where YAML joins the
// lines of a rule, a comment would hide the rest of it.
func checkComments(text string) error {
	line, column, quote, raw := 1, 1, "", false
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case rest[0] == '\n':
			line, column = line+1, 0
		case quote == "" && strings.HasPrefix(rest, "//"):
			return &Error{line, column, "comments are not allowed in a rule, because where YAML joins lines they hide the rest; put the comment above the rule"}
		case quote == "" && (rest[0] == '"' || rest[0] == '\''):
			quote, raw = rest[:1], i > 0 && text[i-1]|' ' == 'r'
			if strings.HasPrefix(rest, strings.Repeat(quote, 3)) {
				return &Error{line, column, "use single quotation marks, not triple ones"}
			}
		case quote != "" && !raw && rest[0] == '\\':
			i, column = i+1, column+1
		case quote != "" && strings.HasPrefix(rest, quote):
			quote = ""
		}
		column++
	}
	return nil
}

// absent lists CEL functions that are not available, with the alternative. The
// package comment gives the reasons.
var absent = map[string]string{
	"matches":     "a pattern would match anywhere in a text; compare whole texts, or use startsWith and endsWith",
	"contains":    "contains would match anywhere in a text; compare whole texts, or use startsWith and endsWith",
	"map":         "use exists, all or filter",
	"type":        "types are known at compile time",
	"dyn":         "types are known at compile time",
	"now":         "compare with time, the time of verification",
	"getFullYear": "compare times with timestamp(…) and duration(…)",
	"getMonth":    "compare times with timestamp(…) and duration(…)",
	"getHours":    "compare times with timestamp(…) and duration(…)",
	"http":        "rules only have verified inputs",
}

// checkWords refuses functions that are not available.
func checkWords(tree *ast.AST) (err error) {
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if err != nil || e.Kind() != ast.CallKind {
			return
		}
		if instead, left := absent[e.AsCall().FunctionName()]; left {
			err = faultAt(tree, e, "%s is not available in rules: %s", e.AsCall().FunctionName(), instead)
		}
	}))
	return err
}

// Error is a fault in the text of a rule, with its position. Lines and columns
// count from 1.
type Error struct {
	Line, Column int
	Message      string
}

// Error formats the position and the fault.
func (e *Error) Error() string {
	return fmt.Sprintf("at line %d, column %d of the rule: %s", e.Line, e.Column, e.Message)
}

// firstOf returns the first fault that CEL found, by position; nil if none.
func firstOf(issues *lang.Issues) error {
	var first *Error
	for _, found := range issues.Errors() {
		e := &Error{max(1, found.Location.Line()), max(0, found.Location.Column()) + 1, plain(found.Message)}
		if first == nil || e.Line < first.Line || e.Line == first.Line && e.Column < first.Column {
			first = e
		}
	}
	if first == nil {
		return nil
	}
	return first
}

// plain removes CEL's mention of a container, which rules do not have.
func plain(message string) string {
	return strings.ReplaceAll(message, " (in container '')", "")
}

func faultAt(tree *ast.AST, e ast.Expr, format string, args ...any) *Error {
	at := tree.SourceInfo().GetStartLocation(e.ID())
	return &Error{max(1, at.Line()), max(0, at.Column()) + 1, fmt.Sprintf(format, args...)}
}
