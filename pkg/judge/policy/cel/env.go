package cel

import (
	"reflect"
	"strings"

	lang "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/parser"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// library lists every function that a rule may call, with the allowed
// overloads; all overloads where none is listed. Functions that a later version
// of CEL adds are therefore not available.
var library = map[string][]string{
	operators.LogicalAnd:           nil,
	operators.LogicalOr:            nil,
	operators.LogicalNot:           nil,
	operators.Conditional:          nil,
	operators.NotStrictlyFalse:     nil, // functions that CEL generates for loops
	operators.Equals:               nil,
	operators.NotEquals:            nil,
	operators.In:                   nil,
	operators.Index:                {overloads.IndexMap},
	operators.Less:                 {overloads.LessInt64, overloads.LessTimestamp, overloads.LessDuration},
	operators.LessEquals:           {overloads.LessEqualsInt64, overloads.LessEqualsTimestamp, overloads.LessEqualsDuration},
	operators.Greater:              {overloads.GreaterInt64, overloads.GreaterTimestamp, overloads.GreaterDuration},
	operators.GreaterEquals:        {overloads.GreaterEqualsInt64, overloads.GreaterEqualsTimestamp, overloads.GreaterEqualsDuration},
	operators.Add:                  {overloads.AddInt64, overloads.AddString, overloads.AddList, overloads.AddTimestampDuration, overloads.AddDurationDuration},
	operators.Subtract:             {overloads.SubtractInt64, overloads.SubtractTimestampTimestamp, overloads.SubtractTimestampDuration, overloads.SubtractDurationDuration},
	overloads.Size:                 {overloads.SizeList, overloads.SizeListInst, overloads.SizeMap, overloads.SizeMapInst, overloads.SizeString, overloads.SizeStringInst},
	overloads.StartsWith:           nil,
	overloads.EndsWith:             nil,
	overloads.TypeConvertInt:       {overloads.StringToInt},
	overloads.TypeConvertTimestamp: {overloads.StringToTimestamp},
	overloads.TypeConvertDuration:  {overloads.StringToDuration},
}

// some is the function that all wraps around the list of its loop. It cannot be
// written in a rule.
const some = "@some"

// environment is the language of rules.
func environment() (*lang.Env, error) {
	subset := env.NewLibrarySubset().SetDisableMacros(true)
	for name, ids := range library {
		fn := env.NewFunction(name)
		for _, id := range ids {
			fn.Overloads = append(fn.Overloads, &env.Overload{ID: id})
		}
		subset.AddIncludedFunctions(fn)
	}
	whatever := lang.TypeParamType("T") // a loop over anything but a list is refused
	return lang.NewCustomEnv(
		lang.StdLib(lang.StdLibSubset(subset)),
		lang.Macros(lang.HasMacro, lang.ExistsMacro, lang.ExistsOneMacro, lang.FilterMacro,
			lang.ReceiverMacro(operators.All, 2, makeAll)),
		lang.Function(some, lang.Overload(some, []*lang.Type{whatever}, whatever, lang.UnaryBinding(someOf))),
		lang.CostModel(cost.Overload(some, cost.EvalCost(cost.Const(1)), cost.ResultSize(cost.Arg(0)))),
		lang.EnableMacroCallTracking(),
		lang.EnableHiddenAccumulatorName(true),
		lang.ParserRecursionLimit(maxDepth),
		lang.ParserErrorRecoveryLimit(1),
		lang.ParserExpressionSizeLimit(maxText),
		lang.ExpressionNodeLimit(maxNodes),
		lang.ASTValidators(lang.ValidateTimestampLiterals(), lang.ValidateDurationLiterals()),
		lang.Types(
			lang.NativeTypeFor[policy.ArtifactView](types.ParseStructField(word)),
			lang.NativeTypeFor[policy.EvidenceView](types.ParseStructField(word)),
			lang.NativeTypeFor[policy.ProvenanceView](types.ParseStructField(word)),
			lang.NativeTypeFor[policy.DependencyView](types.ParseStructField(word)),
		),
		lang.Variable("stage", lang.StringType),
		lang.Variable("version", lang.StringType),
		lang.Variable("time", lang.TimestampType),
		lang.Variable("artifact", nameOf[policy.ArtifactView]()),
		lang.Variable("evidence", lang.ListType(nameOf[policy.EvidenceView]())),
	)
}

// nameOf returns the type name in the language for one of our types.
func nameOf[T any]() *lang.Type { return lang.ObjectType(reflect.TypeFor[T]().String()) }

// word returns the name of a field in rules: buildType, sha256, uri.
func word(field reflect.StructField) string {
	if name := field.Name; name == strings.ToUpper(name) {
		return strings.ToLower(name)
	}
	return strings.ToLower(field.Name[:1]) + field.Name[1:]
}

// makeAll is CEL's all, for a list that must not be empty.
func makeAll(eh parser.ExprHelper, target ast.Expr, args []ast.Expr) (ast.Expr, *lang.Error) {
	return parser.MakeAll(eh, eh.NewCall(some, target), args)
}

func someOf(list ref.Val) ref.Val {
	if sized, ok := list.(traits.Sizer); ok && sized.Size() != types.IntZero {
		return list
	}
	return types.NewErr("all(…) over an empty list proves nothing")
}

// The limits of a rule.
const (
	maxText  = 4096 // bytes
	maxDepth = 32
	maxNodes = 1000
	maxLoops = 3 // nested

	// maxCost is in CEL's own unit: about one step, or ten characters of a
	// string; some 100 ns each.
	maxCost = 1_000_000
)

// typical gives CEL typical sizes, from which it estimates the cost of a rule.
// They need not be true: at evaluation, larger inputs run into maxCost.
type typical struct{}

// The sizes that a rule must be able to process.
const (
	typicalText         = 128
	typicalEvidence     = 16
	typicalDependencies = 1000
	typicalParameters   = 100
)

// EstimateSize returns the typical size of a value by its type.
func (typical) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	var most uint64
	switch t := node.Type(); t.Kind() {
	case types.StringKind:
		most = typicalText
	case types.MapKind:
		most = typicalParameters
	case types.ListKind:
		most = typicalDependencies
		if t.Parameters()[0].TypeName() == reflect.TypeFor[policy.EvidenceView]().String() {
			most = typicalEvidence
		}
	default:
		return nil
	}
	return &cost.SizeEstimate{Max: most}
}

// EstimateCallCost uses CEL's own estimate.
func (typical) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
