package main

import (
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/policy/cel"
)

// rules compiles the CEL rules of policies. The CEL engine is created with the first
// rule.
func rules() policy.Compiler { return lazyRules{} }

type lazyRules struct{}

func (lazyRules) Compile(expression string) (policy.Expression, error) {
	engine, err := cel.New()
	if err != nil {
		return nil, err
	}
	return engine.Compile(expression)
}
