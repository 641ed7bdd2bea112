package cel

import (
	"maps"
	"slices"

	lang "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// checkMeaning refuses what has the right types and still cannot be meant: a
// condition that always comes out the same, and what depends on an order that
// nobody promised. It says whether the rule looks at when evidence was signed.
func checkMeaning(tree *ast.AST) (dated bool, err error) {
	r := &reader{tree: tree}
	if r.read(tree.Expr(), nil); r.fault != nil {
		return false, r.fault
	}
	return r.dated, nil
}

// names are those that an expression depends on.
type names map[string]bool

// reader walks an expression as it was written: of a loop it reads the range
// and the condition, and skips what CEL put around them.
type reader struct {
	tree  *ast.AST
	fault *Error // the first
	dated bool   // a time of signing is looked at
}

func (r *reader) refuse(e ast.Expr, format string, args ...any) {
	if r.fault == nil {
		r.fault = faultAt(r.tree, e, format, args...)
	}
}

// read lists the names that an expression depends on. Bound are the variables
// of the loops around it.
func (r *reader) read(e ast.Expr, bound []string) names {
	free := names{}
	if r.fault != nil {
		return free
	}
	switch e.Kind() {
	case ast.LiteralKind:
		if e.AsLiteral().Type() == types.NullType {
			r.refuse(e, "nothing that a rule sees is ever null; use has(…), or compare with \"\"")
		}
	case ast.IdentKind:
		free[e.AsIdent()] = true
		if r.tree.GetType(e.ID()).Kind() == types.TypeKind {
			r.refuse(e, "%s is the name of a type; every type is known when the rule is read", e.AsIdent())
		}
	case ast.SelectKind:
		free = r.read(e.AsSelect().Operand(), bound)
		r.checkField(e.AsSelect())
	case ast.ListKind:
		if e.AsList().Size() == 0 {
			r.refuse(e, "the list is empty, so nothing is in it and anything is true of all of it")
		}
		free = r.readEach(e.AsList().Elements(), bound)
	case ast.CallKind:
		free = r.readEach(operands(e.AsCall()), bound)
		r.checkCall(e)
	case ast.ComprehensionKind:
		free = r.readLoop(e, bound)
	default:
		r.refuse(e, "a rule makes no values of its own")
	}
	r.checkType(e, free)
	return free
}

func (r *reader) readEach(list []ast.Expr, bound []string) names {
	free := names{}
	for _, e := range list {
		maps.Copy(free, r.read(e, bound))
	}
	return free
}

// operands are everything that a call is about.
func operands(call ast.CallExpr) []ast.Expr {
	if call.IsMemberFunction() {
		return append([]ast.Expr{call.Target()}, call.Args()...)
	}
	return call.Args()
}

// readLoop reads exists, exists_one, all and filter.
func (r *reader) readLoop(e ast.Expr, bound []string) names {
	loop := e.AsComprehension()
	free := r.read(loop.IterRange(), bound)
	name := loop.IterVar()
	over := r.tree.GetType(loop.IterRange().ID())
	switch _, variable := variables[name]; {
	case over.Kind() != types.ListKind:
		r.refuse(e, "it loops over %s, which has no order; ask for the keys by name", over)
	case len(bound) == maxLoops:
		r.refuse(e, "more than %d loops inside each other", maxLoops)
	case variable || slices.Contains(bound, name):
		r.refuse(e, "%s already means something here; choose another name", name)
	}
	condition := conditionOf(loop)
	asked := r.read(condition, append(slices.Clone(bound), name))
	if !asked[name] {
		r.refuse(condition, "the condition does not look at %s, so it is the same for each", name)
	}
	delete(asked, name)
	maps.Copy(free, asked)
	return free
}

// variables are what a rule sees.
var variables = map[string]bool{"stage": true, "version": true, "time": true, "artifact": true, "evidence": true}

// conditionOf is what the author wrote in a loop: the second operand of && and
// ||, with which all and exists carry on, and the first of ?:, with which
// exists_one and filter do.
func conditionOf(loop ast.ComprehensionExpr) ast.Expr {
	step := loop.LoopStep().AsCall()
	if step.FunctionName() == operators.Conditional {
		return step.Args()[0]
	}
	return step.Args()[1]
}

// checkType refuses what has no type of its own, and conditions that depend on
// nothing.
func (r *reader) checkType(e ast.Expr, free names) {
	t := r.tree.GetType(e.ID())
	switch {
	case isLoose(t):
		r.refuse(e, "its type is not known (%s); let all values of a list have one type", t)
	case t.Kind() == types.BoolKind && len(free) == 0:
		r.refuse(e, "this depends on nothing that the rule is asked about, so it is always the same")
	}
}

// isLoose reports whether a type is only known when the rule is asked.
func isLoose(t *types.Type) bool {
	switch t.Kind() {
	case types.DynKind, types.AnyKind, types.ErrorKind, types.TypeParamKind, types.UnknownKind:
		return true
	case types.ListKind, types.MapKind:
		return slices.ContainsFunc(t.Parameters(), isLoose)
	}
	return false
}

// checkCall refuses what cannot come out both ways.
func (r *reader) checkCall(e ast.Expr) {
	args := operands(e.AsCall())
	if r.fault != nil || len(args) < 2 {
		return
	}
	left, right := args[0], args[1]
	switch e.AsCall().FunctionName() {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		r.checkComparison(e, left, right)
	case operators.In:
		r.checkIn(e, left, right)
	case operators.Index:
		r.checkClaim(left, right)
	case operators.LogicalAnd, operators.LogicalOr:
		if r.same(negated(left), right) || r.same(left, negated(right)) {
			r.refuse(e, "a condition and its opposite; this is always the same")
		}
	case operators.Conditional:
		if r.same(right, args[2]) {
			r.refuse(e, "both answers are the same; the condition changes nothing")
		}
	case overloads.StartsWith, overloads.EndsWith:
		if text, ok := literal[string](right); ok && text == "" || r.same(left, right) {
			r.refuse(e, "every text begins and ends with nothing, and with itself; this is always the same")
		}
	}
}

func (r *reader) checkComparison(e, left, right ast.Expr) {
	if t := r.tree.GetType(left.ID()); !isScalar(t) {
		r.refuse(e, "%s is compared as a whole; compare texts, numbers and times", t)
	}
	if r.same(left, right) {
		r.refuse(e, "something is compared with itself; this is always the same")
	}
	r.checkWord(left, right)
	r.checkWord(right, left)
	r.checkReach(e, left, right)
}

func (r *reader) checkIn(e, item, among ast.Expr) {
	if t := r.tree.GetType(item.ID()); !isScalar(t) {
		r.refuse(e, "%s is looked for as a whole; look for texts, numbers and times", t)
	}
	r.checkWord(item, among)
	r.checkClaim(among, item)
	if among.Kind() != ast.ListKind {
		return
	}
	if slices.ContainsFunc(among.AsList().Elements(), func(one ast.Expr) bool { return r.same(one, item) }) {
		r.refuse(e, "something is looked for in a list that holds it; this is always the same")
	}
}

func isScalar(t *types.Type) bool {
	return slices.Contains([]types.Kind{types.StringKind, types.IntKind, types.BoolKind, types.TimestampKind, types.DurationKind}, t.Kind())
}

// negated is what stands behind a !, nil where there is none.
func negated(e ast.Expr) ast.Expr {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalNot {
		return e.AsCall().Args()[0]
	}
	return nil
}

// same reports whether two expressions are written the same way.
func (r *reader) same(one, other ast.Expr) bool {
	if one == nil || other == nil {
		return false
	}
	a, err := lang.ExprToString(one, r.tree.SourceInfo())
	if err != nil {
		return false
	}
	b, err := lang.ExprToString(other, r.tree.SourceInfo())
	return err == nil && a == b
}
