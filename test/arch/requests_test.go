package arch_test

import (
	"fmt"
	"go/ast"
)

// gateRoom is where requests to the gate are filled in.
const gateRoom = "pkg/gate"

// asksByItself are the files that fill in a request without a profile, each
// with the fields that it has no profile for.
var asksByItself = map[string]string{
	"cmd/waybill/gate.go":          "PolicyRequest", // a promoter's manifests, without a policy
	"cmd/waybill/gate_one.go":      "PolicyRequest", // the errors of a policy that --policy names
	"cmd/waybill/verify_github.go": "GitHubRelease", // no profile is asked
}

// gateRequests refuses a request to the gate that is filled in elsewhere than in
// the gate: a field that one command forgets is a check that it does not make.
// gate.Open makes every request that is asked under a profile.
func gateRequests(tr *tree) (refusals []string) {
	for _, s := range tr.product() {
		if s.room == gateRoom || s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || len(lit.Elts) == 0 {
				return true
			}
			sel, ok := lit.Type.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || s.imports[pkg.Name] != modulePath+"/"+gateRoom {
				return true
			}
			switch sel.Sel.Name {
			case "Request", "PolicyRequest", "UnsealedRequest", "GitHubRelease":
				if asksByItself[s.path] != sel.Sel.Name {
					refusals = append(refusals, fmt.Sprintf("%s fills in a gate.%s: a field that is forgotten is a check that is not made (call gate.Open)", tr.at(lit.Pos()), sel.Sel.Name))
				}
			}
			return true
		})
	}
	return refusals
}

func requestSeeds() []seed {
	file := func(path, literal string) map[string]string {
		return one(path, "package a\nimport \""+modulePath+"/pkg/gate\"\nvar _ = "+literal)
	}
	return []seed{
		{"gate requests", "pkg/pipeline/a.go:3 fills in a gate.Request",
			file("pkg/pipeline/a.go", "gate.Request{Now: now}"), file("pkg/pipeline/a.go", "gate.Under(p, v, w, s)")},
		{"gate requests", "pkg/serve/a.go:3 fills in a gate.PolicyRequest",
			file("pkg/serve/a.go", "gate.PolicyRequest{Now: now}"), file("pkg/serve/a.go", "gate.PolicyRequest{}")},
		{"gate requests", "cmd/waybill/gate.go:3 fills in a gate.Request",
			file("cmd/waybill/gate.go", "gate.Request{Now: now}"), file("cmd/waybill/gate.go", "gate.PolicyRequest{Now: now}")},
	}
}
