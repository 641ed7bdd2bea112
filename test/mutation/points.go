package mutation

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A Mutant is one change of the product that tests should notice.
type Mutant struct {
	ID       int
	Package  string // below the module, such as pkg/judge/verify
	File     string
	Line     int
	Operator string
	Code     string // what is changed, on one line
	Func     string
}

// Key names a mutant by what it changes, so that it stays when lines move.
func (m Mutant) Key() string {
	return strings.Join([]string{m.Package, m.Func, m.Operator, m.Code}, " | ")
}

// String is the place, and what is changed there.
func (m Mutant) String() string {
	return fmt.Sprintf("%s/%s:%d %s: %s", m.Package, m.File, m.Line, m.Operator, m.Code)
}

// A wrap puts text before and after an expression or a statement.
type wrap struct {
	from, to      int
	before, after string
}

// A finder looks for the places of one file at which a mutant can be.
type finder struct {
	pkg     *packages.Package
	file    *ast.File
	source  []byte
	next    int
	mutants []Mutant
	wraps   []wrap
	within  string            // the function
	asked   map[ast.Expr]bool // conditions that are mutated as a whole already
	loops   map[ast.Expr]bool // conditions of loops: a loop that never ends tells nothing
}

func (f *finder) offset(p token.Pos) int { return f.pkg.Fset.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

// add adds a mutant; before and after are the Go around the node, with %d for its number.
func (f *finder) add(n ast.Node, operator, before, after string) {
	f.next++
	at := f.pkg.Fset.Position(n.Pos())
	code := strings.Join(strings.Fields(f.text(n)), " ")
	if len(code) > 160 {
		code = code[:160]
	}
	f.mutants = append(f.mutants, Mutant{
		ID: f.next, Package: below(f.pkg.PkgPath), File: base(at.Filename), Line: at.Line,
		Operator: operator, Code: code, Func: f.within,
	})
	f.wraps = append(f.wraps, wrap{f.offset(n.Pos()), f.offset(n.End()), strings.ReplaceAll(before, "#", fmt.Sprint(f.next)), after})
}

// isBool says whether an expression is exactly a bool, not of a type made from it.
func (f *finder) isBool(e ast.Expr) bool {
	t := f.pkg.TypesInfo.TypeOf(e)
	return t != nil && (types.Identical(t, types.Typ[types.Bool]) || types.Identical(t, types.Typ[types.UntypedBool]))
}

// still says whether an expression may be evaluated twice: it calls nothing
// but conversions and len.
func (f *finder) still(e ast.Expr) bool {
	still := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name, named := n.Fun.(*ast.Ident)
			if !f.pkg.TypesInfo.Types[n.Fun].IsType() && (!named || name.Name != "len") {
				still = false
			}
		case *ast.FuncLit:
			still = false
		case *ast.UnaryExpr:
			still = still && n.Op != token.ARROW
		}
		return still
	})
	return still
}

func (f *finder) find() {
	for _, d := range f.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			f.within = fn.Name.Name
			if fn.Recv != nil && len(fn.Recv.List) == 1 {
				f.within = strings.TrimLeft(types.ExprString(fn.Recv.List[0].Type), "*") + "." + f.within
			}
			ast.Inspect(fn.Body, f.visit)
		}
	}
	same := map[string]int{}
	for i, m := range f.mutants {
		key := m.Key()
		if same[key]++; same[key] > 1 { // in another place of the function
			f.mutants[i].Code += fmt.Sprintf(" #%d", same[key])
		}
	}
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.IfStmt:
		f.condition(n.Cond, leaves(n.Body))
	case *ast.ForStmt:
		f.loops[n.Cond] = true
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					f.condition(e, false)
				}
			}
		}
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.ReturnStmt:
		f.returned(n)
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case *ast.CallExpr:
		f.swapped(n)
	}
	return true
}

// condition mutates what decides whether a block runs.
func (f *finder) condition(e ast.Expr, leaves bool) {
	if !f.isBool(e) || f.asked[e] {
		return
	}
	f.asked[e] = true
	f.add(e, "negated", "mutant.Not(#, ", ")")
	if leaves {
		f.add(e, "refusal skipped", "mutant.Never(#, ", ")")
	} else {
		f.add(e, "case skipped", "mutant.Never(#, ", ")")
	}
}

// binary drops parts of "and" and "or", and moves or negates comparisons.
func (f *finder) binary(n *ast.BinaryExpr) {
	if !f.isBool(n) {
		return
	}
	switch n.Op {
	case token.LAND, token.LOR:
		for _, part := range []ast.Expr{n.X, n.Y} {
			if inner, ok := ast.Unparen(part).(*ast.BinaryExpr); ok && inner.Op == n.Op || !f.isBool(part) {
				continue
			}
			f.asked[part] = true
			if n.Op == token.LAND {
				f.add(part, "dropped from and", "mutant.Always(#, ", ")")
			} else {
				f.add(part, "dropped from or", "mutant.Never(#, ", ")")
			}
		}
	case token.EQL, token.NEQ:
		if !f.asked[n] {
			f.add(n, "negated", "mutant.Not(#, ", ")")
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if !f.loops[n] && f.still(n.X) && f.still(n.Y) {
			f.add(n, "boundary moved", "mutant.Edge(#, ", ", ("+f.text(n.X)+") == ("+f.text(n.Y)+"))")
		}
	}
}

// returned lets an error go, and answers the opposite.
func (f *finder) returned(n *ast.ReturnStmt) {
	for _, e := range n.Results {
		t := f.pkg.TypesInfo.TypeOf(e)
		if id, ok := e.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") && f.isBool(e) {
			f.add(e, "opposite returned", "mutant.Not(#, ", ")")
		} else if t != nil && types.Identical(t, types.Universe.Lookup("error").Type()) {
			f.add(e, "error returned as nil", "mutant.Nil(#, ", ")")
		}
	}
}

// Calls whose absence is no judgement: locks, clean-up, and what ends the process.
var housekeeping = []string{"Lock", "Unlock", "RLock", "RUnlock", "Wait", "Done", "Close", "panic", "close", "delete", "Stop", "Observe", "Inc", "Printf", "Println"}

// statements leaves out calls, and elements of lists.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			f.statement(s)
		case *ast.AssignStmt:
			f.assigned(s)
		}
	}
}

// statement leaves a call out.
func (f *finder) statement(n *ast.ExprStmt) {
	call, ok := n.X.(*ast.CallExpr)
	if !ok {
		return
	}
	name := ""
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		name = fn.Name
	case *ast.SelectorExpr:
		name = fn.Sel.Name
	}
	if name != "" && !slices.Contains(housekeeping, name) {
		f.add(n, "call left out", "if !mutant.On(#) { ", " }")
	}
}

// assigned leaves an element out of a list.
func (f *finder) assigned(n *ast.AssignStmt) {
	if n.Tok != token.ASSIGN || len(n.Rhs) != 1 {
		return
	}
	if call, ok := n.Rhs[0].(*ast.CallExpr); ok && types.ExprString(call.Fun) == "append" {
		f.add(n, "element left out", "if !mutant.On(#) { ", " }")
	}
}

// swapped exchanges two arguments of one type, such as what is wanted and what was got.
func (f *finder) swapped(n *ast.CallExpr) {
	if f.pkg.TypesInfo.Types[n.Fun].IsBuiltin() {
		return
	}
	for i := 1; i < len(n.Args); i++ {
		a, b := n.Args[i-1], n.Args[i]
		ta, tb := f.pkg.TypesInfo.Types[a], f.pkg.TypesInfo.Types[b]
		if n.Ellipsis.IsValid() && i == len(n.Args)-1 || ta.Type == nil || tb.Type == nil || !ta.IsValue() || !tb.IsValue() ||
			ta.Value != nil || tb.Value != nil || !types.Identical(ta.Type, tb.Type) || !f.still(a) || !f.still(b) {
			continue
		}
		if _, nothing := ta.Type.(*types.Basic); nothing && ta.IsNil() {
			continue
		}
		id := f.next + 1
		f.add(a, "arguments swapped", "mutant.Other(#, ", ", "+f.text(b)+")")
		f.mutants[len(f.mutants)-1].Code = strings.Join(strings.Fields(f.text(a)+", "+f.text(b)), " ")
		f.wraps = append(f.wraps, wrap{f.offset(b.Pos()), f.offset(b.End()), fmt.Sprintf("mutant.Other(%d, ", id), ", " + f.text(a) + ")"})
		i++
	}
}

// leaves says whether a block ends by leaving the function or the loop's round.
func leaves(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

// apply writes the wraps into a source. Of wraps of one place the first is the outermost.
func apply(source []byte, wraps []wrap) string {
	type insert struct {
		at, order int
		text      string
	}
	var all []insert
	for i, w := range wraps {
		// What closes comes before what opens; what lies within closes first and opens last.
		all = append(all, insert{w.from, 1<<40 - (w.to-w.from)<<20 + i, w.before}, insert{w.to, -1<<50 + (w.to-w.from)<<20 - i, w.after})
	}
	slices.SortStableFunc(all, func(a, b insert) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	var out strings.Builder
	at := 0
	for _, in := range all {
		out.Write(source[at:in.at])
		out.WriteString(in.text)
		at = in.at
	}
	out.Write(source[at:])
	return out.String()
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// below is a package's path below the module.
func below(path string) string { return strings.TrimPrefix(path, module+"/") }
