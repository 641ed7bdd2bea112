package cel

import (
	"reflect"

	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

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
