package cel

import (
	"reflect"

	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// The limits on a rule.
const (
	maxText  = 4096 // bytes
	maxDepth = 32
	maxNodes = 1000
	maxLoops = 3 // inside each other

	// The cost of what CEL does, in its own unit: about one step, or ten
	// characters of text; some 100 ns each.
	maxCost = 1_000_000
)

// typical tells CEL how large things are, so that it can tell the worst cost
// of a rule. Nothing trusts these numbers: what is larger runs into maxCost.
type typical struct{}

// The sizes that a rule must be able to deal with.
const (
	typicalText         = 128
	typicalEvidence     = 16
	typicalDependencies = 1000
	typicalParameters   = 100
)

// EstimateSize is the size of what has this type.
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

// EstimateCallCost leaves the cost of calls to CEL.
func (typical) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
