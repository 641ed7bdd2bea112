package arch_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
)

// How much one type may do, and how much of itself it may change on the way.
const (
	maxTypeMethods = 40
	maxWritten     = 15
)

// methods refuses types with many methods, those counted that a type gets from
// types of its own package which it embeds; and types whose methods write many
// of their fields, which is how one step hides from the next what it did.
func methods(tr *tree) (refusals []string) {
	for _, t := range typesOf(tr) {
		if n := t.methods(); n > maxTypeMethods {
			refusals = append(refusals, fmt.Sprintf("%s has %d methods: the limit is %d (split it by what it is about)", t.name, n, maxTypeMethods))
		}
		if n := len(t.written); n > maxWritten {
			refusals = append(refusals, fmt.Sprintf("%s: its methods write %d of its fields: the limit is %d (take values and return them)", t.name, n, maxWritten))
		}
	}
	return refusals
}

// methodful is a type of the product that has methods or embeds types.
type methodful struct {
	name    string
	own     int
	embeds  []*methodful
	written map[string]bool
}

func (m *methodful) methods() int {
	n := m.own
	for _, e := range m.embeds {
		n += e.methods()
	}
	return n
}

// typesOf lists the types of the product by name.
func typesOf(tr *tree) (list []*methodful) {
	byName := map[string]*methodful{}
	find := func(room, name string) *methodful {
		key := path.Join(room) + "." + name
		if byName[key] == nil {
			byName[key] = &methodful{name: key, written: map[string]bool{}}
		}
		return byName[key]
	}
	for _, s := range tr.product() {
		for _, decl := range s.file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv != nil {
				t := find(s.room, receiver(d))
				t.own++
				writtenBy(d, t.written)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			t := find(s.room, spec.Name.Name)
			for _, f := range fields.Fields.List {
				of := f.Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if id, ok := of.(*ast.Ident); ok && len(f.Names) == 0 && id.Name != spec.Name.Name {
					t.embeds = append(t.embeds, find(s.room, id.Name))
				}
			}
			return true
		})
	}
	for _, key := range sorted(byName) {
		list = append(list, byName[key])
	}
	return list
}

// writtenBy notes which fields of its receiver a method assigns.
func writtenBy(d *ast.FuncDecl, written map[string]bool) {
	if len(d.Recv.List[0].Names) == 0 || d.Body == nil {
		return
	}
	if _, pointer := d.Recv.List[0].Type.(*ast.StarExpr); !pointer {
		return
	}
	self := d.Recv.List[0].Names[0].Name
	note := func(e ast.Expr) {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok && id.Name == self {
				written[s.Sel.Name] = true
			}
		}
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			for _, e := range x.Lhs {
				if x.Tok != token.DEFINE {
					note(e)
				}
			}
		case *ast.IncDecStmt:
			note(x.X)
		}
		return true
	})
}

func methodSeeds() []seed {
	text := func(n int, receiver, body string) string {
		out := "package seal\ntype inner struct{}\ntype t struct{ inner }\nfunc (inner) own() {}\n"
		for i := range n {
			out += fmt.Sprintf("func (%s) m%d() {%s}\n", receiver, i, fmt.Sprintf(body, i))
		}
		return out
	}
	const refused = "pkg/produce/seal.t has 41 methods: the limit is 40"
	return []seed{
		{"methods", refused, one("pkg/produce/seal/a.go", text(40, "*t", "/* %d */")), one("pkg/produce/seal/a.go", text(39, "*t", "/* %d */"))},
		{"methods", refused, one("pkg/produce/seal/a.go", text(40, "t", "/* %d */")), one("pkg/produce/seal/a_test.go", text(40, "t", "/* %d */"))},
		{"methods", "pkg/produce/seal.t: its methods write 16 of its fields: the limit is 15",
			one("pkg/produce/seal/a.go", text(16, "x *t", "x.f%d = 1")), one("pkg/produce/seal/a.go", text(15, "x *t", "x.f%d++"))},
	}
}
