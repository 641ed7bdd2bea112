package cel

import (
	"math"
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// vocabulary lists the possible values of a string expression; nil if it can
// have any.
func (r *reader) vocabulary(e ast.Expr) (words []string) {
	switch e.Kind() {
	case ast.IdentKind:
		if e.AsIdent() == "stage" {
			return []string{string(policy.Staging), string(policy.Published)}
		}
	case ast.SelectKind:
		switch r.field(e) {
		case "policy.ArtifactView.class":
			for _, class := range policy.Judged() {
				words = append(words, string(class))
			}
		case "policy.EvidenceView.role":
			for _, role := range policy.Roles() {
				words = append(words, string(role))
			}
			words = append(words, "")
		}
	}
	return words
}

// field returns the field that an expression selects, with its type.
func (r *reader) field(e ast.Expr) string {
	if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() {
		return ""
	}
	return r.owner(e.AsSelect()) + "." + e.AsSelect().FieldName()
}

// owner returns the type whose field is selected.
func (r *reader) owner(e ast.SelectExpr) string { return r.tree.GetType(e.Operand().ID()).TypeName() }

// checkField records the use of a field.
func (r *reader) checkField(e ast.SelectExpr) {
	if r.owner(e) == "policy.EvidenceView" && e.FieldName() == "signed" {
		r.dated = true
	}
	r.checkClaimName(e.Operand(), e.FieldName())
}

// checkClaim refuses the name of an unknown claim.
func (r *reader) checkClaim(claims, key ast.Expr) {
	if name, ok := literal[string](key); ok {
		r.checkClaimName(claims, name)
	}
}

func (r *reader) checkClaimName(claims ast.Expr, name string) {
	if known := identity.ClaimNames(); r.field(claims) == "policy.EvidenceView.claims" && !slices.Contains(known, name) {
		r.refuse(claims, "unknown claim %q, want one of %q", name, known)
	}
}

// checkWord refuses to compare a string that has a vocabulary with a word that
// is not in it: with a misspelt class, != would always be true.
func (r *reader) checkWord(e, with ast.Expr) {
	words := r.vocabulary(e)
	if words == nil {
		return
	}
	compared := []ast.Expr{with}
	if with.Kind() == ast.ListKind {
		compared = with.AsList().Elements()
	}
	for _, c := range compared {
		if text, ok := literal[string](c); ok && !slices.Contains(words, text) {
			r.refuse(c, "%q is not one of %q", text, words)
		}
	}
}

// literal returns the value of a literal of type T.
func literal[T any](e ast.Expr) (value T, ok bool) {
	if e.Kind() == ast.LiteralKind {
		value, ok = e.AsLiteral().Value().(T)
	}
	return value, ok
}

// reach returns the range of an expression.
func (r *reader) reach(e ast.Expr) (least, most int64, known bool) {
	switch {
	case r.field(e) == "policy.ProvenanceView.level":
		return 0, 3, true
	case e.Kind() == ast.CallKind && e.AsCall().FunctionName() == overloads.Size:
		return 0, math.MaxInt64, true
	}
	return 0, 0, false
}

// mirrored maps each comparison to the one with its operands exchanged.
var mirrored = map[string]string{
	operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
	operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
	operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals,
}

// checkReach refuses comparisons of a level or a size with a number that makes
// them always true or always false.
func (r *reader) checkReach(e, left, right ast.Expr) {
	op := e.AsCall().FunctionName()
	if _, ok := literal[int64](left); ok {
		left, right, op = right, left, mirrored[op]
	}
	n, ok := literal[int64](right)
	least, most, known := r.reach(left)
	if !ok || !known {
		return
	}
	yes, no := false, false
	for _, x := range []int64{least, most, max(n, math.MinInt64+1) - 1, n, min(n, math.MaxInt64-1) + 1} {
		if least <= x && x <= most {
			yes, no = yes || compare(op, x, n), no || !compare(op, x, n)
		}
	}
	if yes && no {
		return
	}
	if most == math.MaxInt64 {
		r.refuse(e, "a size is always %d or more, so this always has the same result", least)
		return
	}
	r.refuse(e, "a level is always between %d and %d, so this always has the same result", least, most)
}

func compare(op string, x, n int64) bool {
	switch op {
	case operators.Less:
		return x < n
	case operators.LessEquals:
		return x <= n
	case operators.Greater:
		return x > n
	case operators.GreaterEquals:
		return x >= n
	case operators.NotEquals:
		return x != n
	}
	return x == n
}
