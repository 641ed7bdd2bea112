package arch_test

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// The walls. Home is well inside them: most files have 100 to 250 lines, most
// functions fewer than 25.
const (
	maxFileLines     = 500
	maxFuncLines     = 80
	maxParams        = 5
	maxMethods       = 4
	maxOptions       = 8
	maxCmdPercentage = 20
)

// sizes refuses long files, tests included, and long functions.
func sizes(tr *tree) (refusals []string) {
	for _, s := range tr.files {
		if s.lines > maxFileLines {
			refusals = append(refusals, fmt.Sprintf("%s has %d lines: the wall is %d (split where a reader would look for the second half)",
				s.path, s.lines, maxFileLines))
		}
		if s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			name := "a function literal"
			switch f := n.(type) {
			case *ast.FuncDecl:
				name = f.Name.Name
			case *ast.FuncLit:
			default:
				return true
			}
			if lines := tr.span(n); lines > maxFuncLines {
				refusals = append(refusals, fmt.Sprintf("%s: %s has %d lines: the wall is %d (name its parts)",
					tr.at(n.Pos()), name, lines, maxFuncLines))
			}
			return true
		})
	}
	return refusals
}

// signatures refuses long parameter lists, and two bools in a row, which no
// caller can read.
func signatures(tr *tree) (refusals []string) {
	for _, s := range tr.code() {
		ast.Inspect(s.file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncType)
			if !ok {
				return true
			}
			params := parameters(f)
			if len(params) > maxParams {
				refusals = append(refusals, fmt.Sprintf("%s takes %d parameters: the wall is %d (group them in a struct with a name)",
					tr.at(f.Pos()), len(params), maxParams))
			}
			for i := 1; i < len(params); i++ {
				if params[i-1] == "bool" && params[i] == "bool" {
					refusals = append(refusals, tr.at(f.Pos())+" takes two bools in a row: no caller can read them (give each choice a type)")
					break
				}
			}
			return true
		})
	}
	return refusals
}

// parameters lists the types of parameters, one for each name; types that are
// not a plain word are empty.
func parameters(f *ast.FuncType) (out []string) {
	for _, field := range f.Params.List {
		word := ""
		if id, ok := field.Type.(*ast.Ident); ok {
			word = id.Name
		}
		for range max(1, len(field.Names)) {
			out = append(out, word)
		}
	}
	return out
}

// shapes refuses wide interfaces and structs of many options.
func shapes(tr *tree) (refusals []string) {
	for _, s := range tr.code() {
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			switch t := spec.Type.(type) {
			case *ast.InterfaceType:
				if n := t.Methods.NumFields(); n > maxMethods {
					refusals = append(refusals, fmt.Sprintf("%s: interface %s has %d methods: the wall is %d (declare it where it is used, with what is used)",
						tr.at(spec.Pos()), spec.Name, n, maxMethods))
				}
			case *ast.StructType:
				if n := t.Fields.NumFields(); n > maxOptions && isOptions(spec.Name.Name) {
					refusals = append(refusals, fmt.Sprintf("%s: %s has %d fields: the wall is %d (group what belongs together)",
						tr.at(spec.Pos()), spec.Name, n, maxOptions))
				}
			}
			return true
		})
	}
	return refusals
}

func isOptions(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "options") || strings.HasSuffix(name, "config")
}

// nameless are the package names that promise nothing.
var nameless = []string{
	"util", "utils", "common", "helper", "helpers", "types", "impl", "manager", "base", "core", "misc",
}

// packageNames refuses names that say nothing about what is inside.
func packageNames(tr *tree) (refusals []string) {
	byRoom := rooms(tr.files)
	for _, room := range sorted(byRoom) {
		name := strings.TrimSuffix(byRoom[room][0].file.Name.Name, "_test")
		for _, n := range nameless {
			if n == name || n == path.Base(room) {
				refusals = append(refusals, fmt.Sprintf("%s is called %s: a package is one noun and one promise (name what it owns)", room, n))
				break
			}
		}
	}
	return refusals
}

// documentation refuses exported names without a comment, and packages that do
// not say what they are.
func documentation(tr *tree) (refusals []string) {
	byRoom := rooms(tr.code())
	for _, room := range sorted(byRoom) {
		if !slices.ContainsFunc(byRoom[room], func(s *source) bool { return s.file.Doc != nil }) {
			refusals = append(refusals, room+" has no package comment: say what it owns and what it does not")
		}
	}
	for _, s := range tr.code() {
		for _, decl := range s.file.Decls {
			for _, name := range undocumented(decl) {
				refusals = append(refusals, fmt.Sprintf("%s: exported %s has no comment: say what it promises", tr.at(name.Pos()), name.Name))
			}
		}
	}
	return refusals
}

// undocumented lists the exported names of a declaration that no comment is
// about. A comment above a group of constants or variables is about each.
func undocumented(decl ast.Decl) (out []*ast.Ident) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
			out = append(out, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch sp := spec.(type) {
			case *ast.TypeSpec:
				if sp.Name.IsExported() && sp.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
					out = append(out, sp.Name)
				}
			case *ast.ValueSpec:
				if sp.Doc != nil || sp.Comment != nil || d.Doc != nil {
					continue
				}
				for _, name := range sp.Names {
					if name.IsExported() {
						out = append(out, name)
					}
				}
			}
		}
	}
	return out
}

// exits refuses to end the process anywhere but in a command: only the one
// table of exit codes decides how a run ends.
func exits(tr *tree) (refusals []string) {
	for _, s := range tr.code() {
		if under(s.room, "cmd") || s.file.Name.Name == "main" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if n == nil {
				return true
			}
			where, symbol := s.selected(n)
			ends := where == "os" && symbol == "Exit" || where == "syscall" && symbol == "Exit" ||
				where == "log" && (strings.HasPrefix(symbol, "Fatal") || strings.HasPrefix(symbol, "Panic"))
			if ends {
				refusals = append(refusals, fmt.Sprintf("%s calls %s.%s: only a command ends the process (return an error)",
					tr.at(n.Pos()), where, symbol))
			}
			return true
		})
	}
	return refusals
}

// shareOfCmd refuses a mouth larger than a fifth of the house.
func shareOfCmd(tr *tree) (refusals []string) {
	mouth, all := 0, 0
	for _, s := range tr.product() {
		all += s.lines
		if under(s.room, "cmd") {
			mouth += s.lines
		}
	}
	if mouth*100 > all*maxCmdPercentage {
		refusals = append(refusals, fmt.Sprintf("cmd has %d of %d lines: it may be %d%% of the product (move what decides down into pkg)",
			mouth, all, maxCmdPercentage))
	}
	return refusals
}
