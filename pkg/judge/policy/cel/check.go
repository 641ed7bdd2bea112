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

// checkMeaning refuses rules that type-check but cannot be intended: conditions
// with a constant result, and those that depend on an undefined order. dated
// reports whether the rule uses the time of a signature.
func checkMeaning(tree *ast.AST) (dated bool, err error) {
	r := &reader{tree: tree}
	if r.read(tree.Expr(), nil); r.fault != nil {
		return false, r.fault
	}
	return r.dated, nil
}

// names are the variables that an expression depends on.
type names map[string]bool

// reader walks an expression as it was written: of a loop it reads the range
// and the condition, and skips what CEL generates around them.
type reader struct {
	tree  *ast.AST
	fault *Error // the first fault
	dated bool   // the time of a signature is used
}

func (r *reader) refuse(e ast.Expr, format string, args ...any) {
	if r.fault == nil {
		r.fault = faultAt(r.tree, e, format, args...)
	}
}

// read returns the variables that an expression depends on. bound lists the
// variables of the enclosing loops.
func (r *reader) read(e ast.Expr, bound []string) names {
	free := names{}
	if r.fault != nil {
		return free
	}
	switch e.Kind() {
	case ast.LiteralKind:
		if e.AsLiteral().Type() == types.NullType {
			r.refuse(e, "no value is ever null; use has(…), or compare with \"\"")
		}
	case ast.IdentKind:
		free[e.AsIdent()] = true
		if r.tree.GetType(e.ID()).Kind() == types.TypeKind {
			r.refuse(e, "%s is the name of a type; types are known at compile time, so remove it", e.AsIdent())
		}
	case ast.SelectKind:
		free = r.read(e.AsSelect().Operand(), bound)
		r.checkField(e.AsSelect())
	case ast.ListKind:
		if e.AsList().Size() == 0 {
			r.refuse(e, "the list is empty, so this always has the same result")
		}
		free = r.readEach(e.AsList().Elements(), bound)
	case ast.CallKind:
		free = r.readEach(operands(e.AsCall()), bound)
		r.checkCall(e)
	case ast.ComprehensionKind:
		free = r.readLoop(e, bound)
	default:
		r.refuse(e, "a rule cannot construct objects")
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

// operands returns the target, if any, and the arguments of a call.
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
		r.refuse(e, "a loop over %s has no defined order; use the keys by name", over)
	case len(bound) == maxLoops:
		r.refuse(e, "more than %d nested loops", maxLoops)
	case variable || slices.Contains(bound, name):
		r.refuse(e, "%s is already defined here; choose another name", name)
	}
	condition := conditionOf(loop)
	asked := r.read(condition, append(slices.Clone(bound), name))
	if !asked[name] {
		r.refuse(condition, "the condition does not use %s, so it is the same for every element", name)
	}
	delete(asked, name)
	maps.Copy(free, asked)
	return free
}

// variables are the inputs of a rule.
var variables = map[string]bool{"stage": true, "version": true, "time": true, "artifact": true, "evidence": true}

// conditionOf returns the condition of a loop as written: the second operand of
// && and ||, which CEL generates for all and exists, or the first of ?:, which
// it generates for exists_one and filter.
func conditionOf(loop ast.ComprehensionExpr) ast.Expr {
	step := loop.LoopStep().AsCall()
	if step.FunctionName() == operators.Conditional {
		return step.Args()[0]
	}
	return step.Args()[1]
}

// checkType refuses expressions without a definite type, and conditions that
// depend on no variable.
func (r *reader) checkType(e ast.Expr, free names) {
	t := r.tree.GetType(e.ID())
	switch {
	case isLoose(t):
		r.refuse(e, "the type is not known at compile time (%s); use one type for all values of a list", t)
	case t.Kind() == types.BoolKind && len(free) == 0:
		r.refuse(e, "this depends on no input, so it always has the same result")
	}
}

// isLoose reports whether a type is known only at evaluation.
func isLoose(t *types.Type) bool {
	switch t.Kind() {
	case types.DynKind, types.AnyKind, types.ErrorKind, types.TypeParamKind, types.UnknownKind:
		return true
	case types.ListKind, types.MapKind:
		return slices.ContainsFunc(t.Parameters(), isLoose)
	}
	return false
}

// checkCall refuses calls with a constant result.
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
			r.refuse(e, "a condition combined with its opposite always has the same result")
		}
	case operators.Conditional:
		if r.same(right, args[2]) {
			r.refuse(e, "both branches are the same, so the condition has no effect")
		}
	case overloads.StartsWith, overloads.EndsWith:
		if text, ok := literal[string](right); ok && text == "" || r.same(left, right) {
			r.refuse(e, "every text starts and ends with the empty text and with itself, so this is always true")
		}
	}
}

func (r *reader) checkComparison(e, left, right ast.Expr) {
	if t := r.tree.GetType(left.ID()); !isScalar(t) {
		r.refuse(e, "values of type %s cannot be compared; compare texts, numbers and times", t)
	}
	if r.same(left, right) {
		r.refuse(e, "a value compared with itself always has the same result")
	}
	r.checkWord(left, right)
	r.checkWord(right, left)
	r.checkReach(e, left, right)
}

func (r *reader) checkIn(e, item, among ast.Expr) {
	if t := r.tree.GetType(item.ID()); !isScalar(t) {
		r.refuse(e, "values of type %s cannot be searched for; search for texts, numbers and times", t)
	}
	r.checkWord(item, among)
	r.checkClaim(among, item)
	if among.Kind() != ast.ListKind {
		return
	}
	if slices.ContainsFunc(among.AsList().Elements(), func(one ast.Expr) bool { return r.same(one, item) }) {
		r.refuse(e, "the list contains the same expression, so this is always true")
	}
}

func isScalar(t *types.Type) bool {
	return slices.Contains([]types.Kind{types.StringKind, types.IntKind, types.BoolKind, types.TimestampKind, types.DurationKind}, t.Kind())
}

// negated returns the operand of !, nil for another expression.
func negated(e ast.Expr) ast.Expr {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalNot {
		return e.AsCall().Args()[0]
	}
	return nil
}

// same reports whether two expressions have the same text.
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
