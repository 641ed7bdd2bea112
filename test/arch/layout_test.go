package arch_test

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// A folder is a row of the layout.
type folder struct {
	path string
	pure bool // no files, no network, no clock, no log, no context
}

// layout is the architecture: a package imports its own folder and those above
// it. A new package goes into the folder that says what it does.
var layout = []folder{
	{"pkg/tool", true},     // tools without a meaning of their own
	{"pkg/value", true},    // words that everybody speaks
	{"policies", true},     // the policies that come with the product
	{"pkg/document", true}, // what others write, parsed and not yet verified
	{"attestations", true}, // the statements of ours, as they are written
	{"pkg/release", true},  // what a release shall be
	{"pkg/judge", true},    // who said it, and is it accepted
	{"pkg/backend", false}, // what is out there
	{"pkg/sbom", false},    // describe bytes, hold a description against bytes
	{"pkg/gate", false},    // decide about a release
	{"pkg/produce", false}, // from a commit to sealed files
	{"pkg/report", false},  // print and explain
	{"pkg/govern", false},  // switch requirements on and off, sign off
	{"pkg/serve", false},   // the gate over HTTP
	{"pkg/pipeline", false},
	{"cmd", false}, // parse flags, call one function, print
}

// alsoPure names packages that judge without seeing the world, in folders that
// see it.
var alsoPure = []string{"pkg/serve/caller", "pkg/govern/feature", "pkg/govern/feature/known", "pkg/govern/signoff"}

// notPure names packages of pure folders that are not, with the reason.
var notPure = map[string]string{
	"pkg/judge/intotolayout": "the library that it calls takes a context",
}

// testSupport holds what the tests of several packages share. It is no part of the
// product.
const testSupport = "pkg/testing"

// reserved names the packages that one command alone may import, because of what
// they bring with them.
var reserved = map[string]string{
	"pkg/backend/store/cloud": "cmd/waybill",
	"pkg/judge/policy/cel":    "cmd/waybill", // the rules engine
}

// rowOf finds the folder of a package, or -1.
func rowOf(room string) int {
	return slices.IndexFunc(layout, func(f folder) bool { return under(room, f.path) })
}

// isPure says whether a package may not see the world.
func isPure(room string) bool {
	row := rowOf(room)
	return slices.Contains(alsoPure, room) || row >= 0 && layout[row].pure && notPure[room] == ""
}

// importsGoUp refuses packages outside the layout, and imports of later folders.
func importsGoUp(tr *tree) (refusals []string) {
	byRoom := rooms(tr.product())
	for _, room := range sorted(byRoom) {
		if rowOf(room) < 0 {
			refusals = append(refusals, room+" is in no folder of the layout: move it into the one that says what it does")
			continue
		}
		for _, other := range productImports(byRoom[room]) {
			if why := mayImport(room, other); why != "" {
				refusals = append(refusals, fmt.Sprintf("%s imports %s: %s", room, other, why))
			}
		}
	}
	return refusals
}

// mayImport answers "" or the reason why not.
func mayImport(room, other string) string {
	from, to := rowOf(room), rowOf(other)
	user := reserved[other]
	switch {
	case user != "" && room != user:
		return "only " + user + " may (pass the value in from there)"
	case under(other, testSupport):
		return "only tests import test support (move what the product needs out of " + testSupport + ")"
	case under(other, "test"):
		return "the product never imports the test module (move the code into the product, or the test out of it)"
	case to < 0:
		return "it is in no folder of the layout"
	case to > from:
		return fmt.Sprintf("%s comes after %s in the layout (move the call down, or the value up)", layout[to].path, layout[from].path)
	}
	return ""
}

// productImports lists the packages of this repository that files import, as
// directories.
func productImports(files []*source) []string {
	seen := map[string]bool{}
	for _, s := range files {
		for _, where := range s.imports {
			if under(where, modulePath) && where != modulePath {
				seen[strings.TrimPrefix(where, modulePath+"/")] = true
			}
		}
	}
	return sorted(seen)
}

// unworldly lists what pure packages may not import, and the way out.
var unworldly = map[string]string{
	"os":           "take bytes, an fs.FS or an io.Reader",
	"os/exec":      "take the answer as a value",
	"os/signal":    "take the answer as a value",
	"os/user":      "take the answer as a value",
	"io/ioutil":    "take bytes or an io.Reader",
	"syscall":      "take the answer as a value",
	"net":          "take the answer as a value",
	"net/http":     "take the answer as a value",
	"log":          "return a finding or an error",
	"log/slog":     "return a finding or an error",
	"context":      "nothing here waits",
	"math/rand":    "the same input gives the same verdict",
	"math/rand/v2": "the same input gives the same verdict",
	"crypto/rand":  "the same input gives the same verdict",
}

// pureFolders refuses the world in pure packages. Only direct imports are judged.
func pureFolders(tr *tree) (refusals []string) {
	for _, s := range tr.product() {
		for _, local := range sorted(s.imports) {
			where := s.imports[local]
			if strings.HasPrefix(local, ".") {
				refusals = append(refusals, fmt.Sprintf(
					"%s imports %q with a dot: its names can no longer be judged (name the package)", s.path, where))
			}
			if out, bad := unworldly[where]; bad && isPure(s.room) {
				refusals = append(refusals, fmt.Sprintf(
					"%s imports %s: %s may not see the world (%s)", s.path, where, s.room, out))
			}
		}
	}
	return refusals
}

// clock lists the symbols of package time that read or wait for the clock.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}

// forbiddenSymbols refuses the clock, the default client and the library calls
// that fetch or open trust by themselves, in pure packages.
func forbiddenSymbols(tr *tree) (refusals []string) {
	for _, s := range tr.product() {
		if !isPure(s.room) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if n == nil {
				return true
			}
			where, symbol := s.selected(n)
			if why := forbidden(where, symbol); why != "" {
				refusals = append(refusals, fmt.Sprintf("%s uses %s: %s",
					tr.at(n.Pos()), strings.TrimPrefix(path.Base(where)+"."+symbol, ".."), why))
			}
			return true
		})
	}
	return refusals
}

// forbidden answers why a selected symbol is refused, or "".
func forbidden(where, symbol string) string {
	switch {
	case where == "time" && slices.Contains(clock, symbol):
		return "time is an argument (take a time.Time)"
	case where == "net/http" && strings.HasPrefix(symbol, "Default"):
		return "there is one transport, and the caller holds it"
	case symbol == "WithCurrentTime":
		return "time is an argument (verify at the time that was given)"
	case strings.HasPrefix(symbol, "FetchTrustedRoot"):
		return "a trust root is an argument (take a trust.Root)"
	case strings.HasSuffix(symbol, "FromPath"):
		return "judgement opens no files (take bytes)"
	}
	return ""
}

// foreign lists the modules whose types stay behind the packages that judge.
var foreign = []string{"github.com/sigstore/sigstore-go", "github.com/sigstore/protobuf-specs"}

// exportedSignatures refuses foreign types in what pure packages export: whoever
// calls us must not need to know which library verifies.
func exportedSignatures(tr *tree) (refusals []string) {
	for _, s := range tr.product() {
		if !isPure(s.room) {
			continue
		}
		for _, decl := range s.file.Decls {
			for name, exprs := range exportedTypes(decl) {
				for _, e := range exprs {
					refusals = append(refusals, foreignIn(tr, s, name, e)...)
				}
			}
		}
	}
	slices.Sort(refusals)
	return refusals
}

// foreignIn refuses the foreign types inside one type expression.
func foreignIn(tr *tree, s *source, name string, e ast.Node) (refusals []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		where, symbol := s.selected(n)
		for _, module := range foreign {
			if where != "" && under(where, module) {
				refusals = append(refusals, fmt.Sprintf(
					"%s: exported %s shows %s.%s of %s: judgement speaks in its own types (wrap it)",
					tr.at(n.Pos()), name, path.Base(where), symbol, module))
			}
		}
		return true
	})
	return refusals
}

// exportedTypes lists, by exported name, the type expressions that a
// declaration shows to other packages.
func exportedTypes(decl ast.Decl) map[string][]ast.Node {
	out := map[string][]ast.Node{}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
			out[d.Name.Name] = []ast.Node{d.Type}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch sp := spec.(type) {
			case *ast.TypeSpec:
				if sp.Name.IsExported() {
					out[sp.Name.Name] = shown(sp.Type)
				}
			case *ast.ValueSpec:
				for _, name := range sp.Names {
					if name.IsExported() && sp.Type != nil {
						out[name.Name] = []ast.Node{sp.Type}
					}
				}
			}
		}
	}
	return out
}

// shown lists what an exported type shows: all of it, but of a struct the
// exported and embedded fields only.
func shown(e ast.Expr) (out []ast.Node) {
	st, ok := e.(*ast.StructType)
	if !ok {
		return []ast.Node{e}
	}
	for _, field := range st.Fields.List {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			out = append(out, field.Type)
		}
	}
	return out
}

// receiver names the type a method belongs to.
func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
