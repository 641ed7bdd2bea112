package cel

import (
	"fmt"
	"strings"

	lang "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
)

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

// firstOf returns the first fault that CEL found, by position.
func firstOf(issues *lang.Issues) error {
	if issues == nil || issues.Err() == nil {
		return nil
	}
	var first *Error
	for _, found := range issues.Errors() {
		e := &Error{max(1, found.Location.Line()), max(0, found.Location.Column()) + 1, plain(found.Message)}
		if first == nil || e.Line < first.Line || e.Line == first.Line && e.Column < first.Column {
			first = e
		}
	}
	if first == nil {
		return &Error{1, 1, plain(issues.Err().Error())}
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
