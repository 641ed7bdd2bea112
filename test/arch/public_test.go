package arch_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// maxPublicNames is how many top-level names the public packages may export
// together. It only ever goes down.
const maxPublicNames = 1000

// shownAnyway names the types of packages that are not public which a public
// package shows all the same, with the reason.
var shownAnyway = map[string]string{
	"pkg/backend/registry shows pkg/judge/sbomcheck.Image": "what an SBOM is compared with; the gate asks for it",
	"pkg/gate shows pkg/backend/rekorv1.Finder":            "the zero Finder is enough: it only serves signatures in legacy forms, and [gate.Open] takes the log from the profile",
	"pkg/gate shows pkg/judge/k8slayout.List":              "Gate.Decide fills it in; only commands ask without a Gate",
	"pkg/gate shows pkg/judge/sbomcheck.Artifact":          "sbom.Look implements Inside; nobody else needs to",
	"pkg/gate shows pkg/judge/sbomcheck.Found":             "sbom.Look implements Inside; nobody else needs to",
	"pkg/gate shows pkg/release/promoterfile.Policy":       "for manifests of Kubernetes' promoter, which waybill reads",
	"pkg/gate shows pkg/release/promotionplan.Edge":        "for plans of promotions, which waybill reads",
	"pkg/gate shows pkg/release/promotionplan.Plan":        "for plans of promotions, which waybill reads",
	"pkg/gate shows pkg/release/promotionplan.Route":       "for plans of promotions, which waybill reads",
	"pkg/produce/sign shows pkg/backend/journal.Entry":     "Work.Kept may be nil: only a run that can be resumed keeps a journal",
	"pkg/produce/sign shows pkg/backend/journal.Journal":   "Work.Kept may be nil: only a run that can be resumed keeps a journal",
	"pkg/sbom shows pkg/judge/sbomcheck.Artifact":          "Judge is for others; these are for the gate",
	"pkg/sbom shows pkg/judge/sbomcheck.Found":             "its findings are verdict.Finding, and Judge returns a verdict",
	"pkg/sbom shows pkg/judge/sbomcheck.Image":             "Judge is for others; these are for the gate",
}

// publicFolders may be imported as a whole.
var publicFolders = []string{"attestations", "policies"}

// publicPackages are the packages that other projects may import: those that
// docs/architecture.md names in its table of layers.
func publicPackages(tr *tree) (public []string, err error) {
	rows, err := pageRows(tr)
	if err != nil {
		return nil, err
	}
	byRoom := rooms(tr.product())
	for _, row := range rows {
		for _, name := range row.public {
			room := path.Join(row.folder, name)
			if len(byRoom[room]) == 0 {
				return nil, fmt.Errorf("%s: the row of %s names %q, which is no package", architecturePage, row.folder, name)
			}
			public = append(public, room)
		}
	}
	for _, room := range sorted(byRoom) {
		if slices.ContainsFunc(publicFolders, func(f string) bool { return under(room, f) }) {
			public = append(public, room)
		}
	}
	slices.Sort(public)
	return public, nil
}

// TestArchPublic checks what other projects see: how many names, and no type
// that they could not name because its package is not public.
func TestArchPublic(t *testing.T) {
	checkout := parseTree(t, os.DirFS(root))
	public, err := publicPackages(checkout)
	if err != nil {
		t.Fatal(err)
	}
	packages := typeCheck(t, public)
	t.Run("names", func(t *testing.T) {
		names := 0
		for _, p := range packages {
			names += len(exportedNames(p))
		}
		t.Logf("%d public packages export %d top-level names; the limit is %d", len(packages), names, maxPublicNames)
		if names > maxPublicNames {
			t.Errorf("the public packages export %d top-level names; the limit is %d (unexport a name that no other project needs)", names, maxPublicNames)
		}
	})
	t.Run("closure", func(t *testing.T) {
		shown := map[string]bool{}
		for _, p := range packages {
			for _, s := range showsHidden(p, public) {
				shown[s.what()] = true
				if shownAnyway[s.what()] == "" {
					t.Errorf("%s: no other project can name a type of a package that is not public (declare an interface or a type where it is used, or list it in shownAnyway with the reason)", s)
				}
			}
		}
		for _, what := range sorted(shownAnyway) {
			if !shown[what] {
				t.Errorf("shownAnyway lists %q, which is no longer shown: remove the line", what)
			}
		}
	})
}

// publicExamples refuses public packages without an Example function whose output
// is compared: others are compiled, and never run.
func publicExamples(tr *tree) (refusals []string) {
	public, err := publicPackages(tr)
	if err != nil {
		return []string{err.Error()}
	}
	byRoom := rooms(tr.files)
	for _, room := range public {
		var tests []*ast.File
		for _, s := range byRoom[room] {
			if s.isTest() {
				tests = append(tests, s.file)
			}
		}
		if !slices.ContainsFunc(doc.Examples(tests...), func(e *doc.Example) bool { return e.Output != "" }) {
			refusals = append(refusals, room+" is public and has no Example function with an // Output: comment (show the one use that an importer wants)")
		}
	}
	return refusals
}

// typeCheck loads what packages export, as the compiler wrote it.
func typeCheck(t *testing.T, packages []string) []*types.Package {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, room := range packages {
		args = append(args, "./"+room)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("compiling the public packages: %v\n%s", err, &complaint)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		where, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[where] = file
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(where string) (io.ReadCloser, error) {
		if files[where] == "" {
			return nil, fs.ErrNotExist
		}
		return os.Open(files[where])
	})
	var all []*types.Package
	for _, room := range packages {
		p, err := compiled.Import(modulePath + "/" + room)
		if err != nil {
			t.Fatalf("reading what %s exports: %v", room, err)
		}
		all = append(all, p)
	}
	return all
}

// exportedNames lists the exported top-level names of a package.
func exportedNames(p *types.Package) []string {
	return slices.DeleteFunc(p.Scope().Names(), func(name string) bool { return !token.IsExported(name) })
}

// A hidden type is one of a package that is not public, shown by one that is.
type hidden struct {
	by    string // "pkg/produce/sign.Keep"
	shows string // "pkg/backend/journal.Journal"
}

func (h hidden) String() string { return h.by + " shows " + h.shows }

// what names the package that shows, and the type.
func (h hidden) what() string {
	room := path.Dir(h.by)
	name, _, _ := strings.Cut(path.Base(h.by), ".")
	return path.Join(room, name) + " shows " + h.shows
}

// showsHidden lists the types of packages of ours that are not public in the
// signatures, fields and methods that a package exports.
func showsHidden(p *types.Package, public []string) []hidden {
	w := &walk{home: p, public: public, seen: map[types.Type]bool{}}
	for _, name := range exportedNames(p) {
		object := p.Scope().Lookup(name)
		w.by = strings.TrimPrefix(p.Path(), modulePath+"/") + "." + name
		if named, is := object.Type().(*types.Named); is && named.Obj() == object {
			w.open(named)
			continue
		}
		w.show(object.Type())
	}
	return w.found
}

// A walk goes through the types that one package shows.
type walk struct {
	home   *types.Package
	public []string
	by     string
	seen   map[types.Type]bool
	found  []hidden
}

// open walks what is inside a named type: exported methods, and what it is made
// of.
func (w *walk) open(named *types.Named) {
	for m := range named.Methods() {
		if m.Exported() {
			w.show(m.Type())
		}
	}
	for p := range named.TypeParams().TypeParams() {
		w.show(p.Constraint())
	}
	w.show(named.Underlying())
}

// show walks a type that another project sees.
func (w *walk) show(t types.Type) {
	if w.seen[t] {
		return
	}
	switch t := t.(type) {
	case *types.Named:
		w.name(t)
	case *types.Alias:
		w.show(t.Rhs())
	case *types.Signature:
		w.show(t.Params())
		w.show(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			w.show(v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				w.show(f.Type())
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			w.show(m.Type())
		}
		for e := range t.EmbeddedTypes() {
			w.show(e)
		}
	case *types.Map:
		w.show(t.Key())
		w.show(t.Elem())
	case *types.Union:
		for term := range t.Terms() {
			w.show(term.Type())
		}
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		w.show(t.Elem())
	}
}

// name judges a named type. A type of the package itself that is not exported is
// walked: its methods and fields are seen.
func (w *walk) name(t *types.Named) {
	for a := range t.TypeArgs().Types() {
		w.show(a)
	}
	object := t.Obj()
	switch {
	case object.Pkg() == nil: // error
	case object.Pkg() == w.home:
		if !object.Exported() {
			w.seen[t] = true
			w.open(t)
		}
	case under(object.Pkg().Path(), modulePath):
		room := strings.TrimPrefix(object.Pkg().Path(), modulePath+"/")
		if !slices.Contains(w.public, room) {
			w.found = append(w.found, hidden{by: w.by, shows: room + "." + object.Name()})
		}
	}
}
