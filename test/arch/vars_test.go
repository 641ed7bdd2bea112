package arch_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// makers are the calls whose value may stand in a package variable: sentinels
// and compiled patterns, which nobody changes.
var makers = map[string][]string{
	"errors":        {"New"},
	"fmt":           {"Errorf"},
	"regexp":        {"MustCompile"},
	"strings":       {"NewReplacer"},
	"net/netip":     {"MustParseAddr", "MustParsePrefix"},
	"text/template": {"Must"},
	"html/template": {"Must"},

	"github.com/waybill-release/waybill/pkg/tool/pattern":  {"Lazy"},  // compiled at the first use
	"github.com/waybill-release/waybill/pkg/value/verdict": {"Coded"}, // errors with a code
}

// packageVariables refuses init functions and package variables, except
// sentinels, compiled patterns, embedded files and tables that nobody writes.
// The test module's helpers are judged for init only: servers that it borrows
// keep state of their own.
func packageVariables(tr *tree) (refusals []string) {
	for _, s := range tr.code() {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				refusals = append(refusals, tr.at(f.Pos())+" has an init function: nothing happens by being imported (call it)")
			}
		}
	}
	byRoom := rooms(tr.product())
	for _, room := range sorted(byRoom) {
		vars := variables(byRoom[room])
		for _, v := range vars {
			if !v.mayStand() {
				refusals = append(refusals, fmt.Sprintf("%s: package variable %s is no sentinel, compiled pattern, embedded file or table (pass it as a value)",
					tr.at(v.name.Pos()), v.name.Name))
			}
			if err := v.invalidPattern(); err != nil {
				refusals = append(refusals, fmt.Sprintf("%s: package variable %s would panic when it is used: %v", tr.at(v.name.Pos()), v.name.Name, err))
			}
		}
		for _, s := range byRoom[room] {
			refusals = append(refusals, writes(tr, s, vars)...)
		}
	}
	return refusals
}

// A variable is a package variable with its value, if it has one.
type variable struct {
	source *source
	name   *ast.Ident
	value  ast.Expr
	embeds bool
}

// variables lists the package variables of a room by name.
func variables(files []*source) map[string]variable {
	out := map[string]variable{}
	for _, s := range files {
		for _, decl := range s.file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				sp := spec.(*ast.ValueSpec)
				for i, name := range sp.Names {
					v := variable{source: s, name: name, embeds: embeds(d.Doc) || embeds(sp.Doc)}
					if i < len(sp.Values) {
						v.value = sp.Values[i]
					}
					if name.Name != "_" {
						out[name.Name] = v
					}
				}
			}
		}
	}
	return out
}

func embeds(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for _, line := range doc.List {
		if strings.HasPrefix(line.Text, "//go:embed ") {
			return true
		}
	}
	return false
}

// stamped names the variables that the linker sets, by -X in our release.yaml.
var stamped = []string{"builtVersion", "builtCommit"}

// mayStand says whether the variable is of a kind that nobody changes.
func (v variable) mayStand() bool {
	if v.embeds || v.source.room == "cmd/internal/cli" && slices.Contains(stamped, v.name.Name) {
		return true
	}
	e := v.value
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		e = u.X
	}
	switch x := e.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		if isConversion(x) {
			return true
		}
		where, symbol := v.source.selected(x.Fun)
		for _, maker := range makers[where] {
			if maker == symbol {
				return true
			}
		}
	}
	return false
}

// invalidPattern compiles a pattern that a program compiles at its first use.
func (v variable) invalidPattern() error {
	call, ok := v.value.(*ast.CallExpr)
	if !ok {
		return nil
	}
	if where, symbol := v.source.selected(call.Fun); where != modulePath+"/pkg/tool/pattern" || symbol != "Lazy" {
		return nil
	}
	text, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(call.Args[0]))
	if err == nil {
		_, err = regexp.Compile(constant.StringVal(text.Value))
	}
	return err
}

// isConversion recognises []byte("…") and its like.
func isConversion(call *ast.CallExpr) bool {
	_, array := call.Fun.(*ast.ArrayType)
	return array && len(call.Args) == 1
}

// writes refuses assignments to the package variables of a room, in full or in
// part, and to those of other packages of the product.
func writes(tr *tree, s *source, vars map[string]variable) (refusals []string) {
	refuse := func(at ast.Node, name string) {
		refusals = append(refusals, fmt.Sprintf("%s writes package variable %s: tables are read only (keep state in a value)",
			tr.at(at.Pos()), name))
	}
	target := func(e ast.Expr) {
		if name := rootVariable(s, e, vars); name != "" {
			refuse(e, name)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			for _, e := range x.Lhs {
				target(e)
			}
		case *ast.IncDecStmt:
			target(x.X)
		case *ast.UnaryExpr:
			if x.Op == token.AND {
				target(x.X)
			}
		case *ast.CallExpr:
			if id, ok := x.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(x.Args) > 0 {
				target(x.Args[0])
			}
		}
		return true
	})
	return refusals
}

// rootVariable names the package variable that x, x.f, x[i] and *x lead to.
func rootVariable(s *source, e ast.Expr, vars map[string]variable) string {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			if where, symbol := s.selected(x); under(where, modulePath) {
				return symbol
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.Ident:
			v, ok := vars[x.Name]
			if ok && (x.Obj == nil || x.Obj.Pos() == v.name.Pos()) {
				return x.Name
			}
			return ""
		default:
			return ""
		}
	}
}
