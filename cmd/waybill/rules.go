package main

import (
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/policy/cel"
)

// rules is the engine for rules that policies have of their own. It is made
// when the first such rule is read.
func rules() policy.Compiler { return lazyRules{} }

type lazyRules struct{}

func (lazyRules) Compile(expression string) (policy.Expression, error) {
	engine, err := cel.New()
	if err != nil {
		return nil, err
	}
	return engine.Compile(expression)
}
