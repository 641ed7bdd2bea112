package cel

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/common/ast"
)

// checkText refuses what must not stand in a rule at all, before anything
// reads it.
func checkText(text string) error {
	if len(text) > maxText {
		return &Error{1, 1, fmt.Sprintf("it is %d bytes long, more than %d", len(text), maxText)}
	}
	if strings.TrimSpace(text) == "" {
		return &Error{1, 1, "it is empty"}
	}
	line, column := 1, 1
	for i := range len(text) {
		switch b := text[i]; {
		case b == '\n':
			line, column = line+1, 0
		case b == '{' || b == '}':
			return &Error{line, column, fmt.Sprintf("%q: nothing fills in a template here; write version + %q", b, "…")}
		case b != '\t' && (b < ' ' || b > '~'):
			return &Error{line, column, fmt.Sprintf("the byte 0x%02x: only printable ASCII, so that what is read is what is meant; "+
				`write \u and four digits inside a text`, b)}
		}
		column++
	}
	return checkComments(text)
}

// checkComments refuses comments. A policy is YAML, and where YAML joins the
// lines of a rule, a comment would swallow the rest of it.
func checkComments(text string) error {
	line, column, quote, raw := 1, 1, "", false
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case rest[0] == '\n':
			line, column = line+1, 0
		case quote == "" && strings.HasPrefix(rest, "//"):
			return &Error{line, column, "comments are not read here: where YAML joins lines they swallow the rest; put it above the rule"}
		case quote == "" && (rest[0] == '"' || rest[0] == '\''):
			quote, raw = rest[:1], i > 0 && text[i-1]|' ' == 'r'
			if strings.HasPrefix(rest, strings.Repeat(quote, 3)) {
				return &Error{line, column, "write the text between single quotation marks, not three"}
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

// absent are the functions of CEL that are left out, for the reasons that the
// package comment gives, and what to write instead.
var absent = map[string]string{
	"matches":     "it finds its pattern anywhere; compare whole texts, or use startsWith and endsWith",
	"contains":    "it finds its text anywhere; compare whole texts, or use startsWith and endsWith",
	"map":         "ask with exists, all or filter",
	"type":        "every type is known when the rule is read",
	"dyn":         "every type is known when the rule is read",
	"now":         "compare with time, the time of judgement",
	"getFullYear": "compare times with timestamp(…) and duration(…)",
	"getMonth":    "compare times with timestamp(…) and duration(…)",
	"getHours":    "compare times with timestamp(…) and duration(…)",
	"http":        "a rule sees nothing but what was verified",
}

// checkWords refuses functions that are left out, with what to write instead.
func checkWords(tree *ast.AST) (err error) {
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if err != nil || e.Kind() != ast.CallKind {
			return
		}
		if instead, left := absent[e.AsCall().FunctionName()]; left {
			err = faultAt(tree, e, "%s is not in the language of rules: %s", e.AsCall().FunctionName(), instead)
		}
	}))
	return err
}
