package gomod

import (
	"errors"
	"fmt"
	"go/version"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxModFile bounds one file of the Go toolchain, such as go.mod.
const maxModFile = 16 << 20

// SourceModule is one module of a source tree: a directory with a go.mod.
type SourceModule struct {
	// Dir is its directory in the tree, "." for the root.
	Dir string
	// Path is the path of the module, Go the language version and Toolchain the
	// suggested toolchain, or "".
	Path, Go, Toolchain string
	// Deps are the modules that the build may use, with checksums.
	Deps []Module
	// Incomplete says why Deps may lack some, or is "".
	Incomplete string
	// Work is the go.work that the module is built with, or "".
	Work string
	// Vendor is the directory with the vendored copies, and Deps are the copied
	// modules; or "".
	Vendor string
}

// Tree is the list of modules of a source tree.
type Tree struct {
	Modules []SourceModule // by directory
	// Faults lists files that do not parse, and missing files that they name,
	// with the reason.
	Faults []string
}

// ReadTree reads the modules of a source tree from its files go.mod, go.sum,
// go.work, go.work.sum and vendor/modules.txt, given the directories that contain
// a go.mod and those that contain a go.work.
//
// A module used by a go.work is read as the go command builds it there: for
// each dependency the highest version that a module of the workspace requires,
// with modules of the workspace itself, and with the replacements and checksums
// of all. If modules were vendored (go mod vendor, go work vendor), only the
// vendored ones are listed.
func ReadTree(files map[string][]byte, works, dirs []string) (Tree, error) {
	if len(dirs) > maxModules || len(works) > maxModules {
		return Tree{}, verdict.Refuse(verdict.Limit, "", "%d modules, the limit is %d", max(len(dirs), len(works)), maxModules)
	}
	r := &treeReader{texts: files, files: map[string]*modfile.File{}, works: map[string]*workspace{}}
	for _, dir := range slices.Sorted(slices.Values(dirs)) {
		if err := r.parse(dir); err != nil {
			return Tree{}, err
		}
	}
	for _, dir := range slices.Sorted(slices.Values(works)) {
		if err := r.workspace(dir); err != nil {
			return Tree{}, err
		}
	}
	for _, dir := range slices.Sorted(slices.Values(dirs)) {
		if f := r.files[dir]; f != nil {
			m, err := r.module(dir, f)
			if err != nil {
				return Tree{}, err
			}
			r.out.Modules = append(r.out.Modules, m)
		}
	}
	for _, w := range r.works {
		r.rest(w)
	}
	r.out.Faults = slice.Unique(r.out.Faults)
	return r.out, nil
}

type treeReader struct {
	texts map[string][]byte
	files map[string]*modfile.File // go.mod by directory
	works map[string]*workspace    // by directory
	out   Tree
}

// unparsed records a file that does not parse.
func (r *treeReader) unparsed(file string, err error) {
	r.out.Faults = append(r.out.Faults, (&parseError{file, err}).Error())
}

// fault records another fault of a file.
func (r *treeReader) fault(file, reason string) {
	r.out.Faults = append(r.out.Faults, file+": "+reason)
}

// parseError is a file that does not parse.
type parseError struct {
	file string
	err  error
}

func (e *parseError) Error() string {
	return fmt.Sprintf("%s does not parse: %.300q", e.file, e.err.Error())
}

// parse reads one go.mod.
func (r *treeReader) parse(dir string) error {
	name := path.Join(dir, "go.mod")
	raw, err := r.read(name)
	if err != nil {
		return err
	}
	f, err := modfile.Parse(name, raw, nil)
	switch {
	case err != nil:
		r.unparsed(name, err)
	case f.Module == nil || len(f.Require) > maxModules:
		r.unparsed(name, errors.New("no module, or too many requirements"))
	default:
		r.files[dir] = f
	}
	return nil
}

func (r *treeReader) module(dir string, f *modfile.File) (SourceModule, error) {
	m := SourceModule{Dir: dir, Path: f.Module.Mod.Path}
	if f.Go != nil {
		m.Go = f.Go.Version
	}
	if f.Toolchain != nil {
		m.Toolchain = f.Toolchain.Name
	}
	w := r.workOf(dir)
	if w != nil {
		m.Work = w.file()
	}
	vendored, err := r.vendored(path.Join(dir, "vendor"))
	if vendored.workspace && r.works[dir] == nil {
		r.fault(path.Join(dir, "vendor", "modules.txt"), "written for a workspace, but there is no go.work")
	}
	switch {
	case err != nil:
		return SourceModule{}, err
	case vendored.list != nil && !vendored.workspace:
		sums, err := r.sums(path.Join(dir, "go.sum"))
		m.Vendor, m.Deps = path.Join(dir, "vendor"), withSums(r.located(vendored.list, dir), sums)
		r.consistent(states{copied: vendored, asks: []*modfile.File{f}, all: []replacements{{f.Replace, dir}}, dir: dir})
		return m, err
	case w != nil && w.vendored.list != nil:
		m.Vendor, m.Deps = path.Join(w.dir, "vendor"), w.copied(r, f)
		return m, nil
	}
	// Since Go 1.17 go.mod lists every module that provides packages of the
	// build; before, only direct requirements.
	if m.Go == "" || before(m.Go, "go1.17") {
		m.Incomplete = path.Join(dir, "go.mod") + " was written for a Go version before 1.17 and lists only direct requirements"
	}
	if w != nil {
		m.Deps = w.selected(r, dir, f)
		return m, nil
	}
	sums, err := r.sums(path.Join(dir, "go.sum"))
	deps := slice.Map(f.Require, func(v *modfile.Require) Module { return r.replace(v.Mod, replacements{f.Replace, dir}) })
	m.Deps = sorted(withSums(deps, sums))
	return m, err
}

// before reports whether the Go version that a go.mod names is older.
func before(named, release string) bool { return version.Compare("go"+named, release) < 0 }

// replacements are those of one file; directories are relative to the file.
type replacements struct {
	list []*modfile.Replace
	dir  string
}

// replace applies replacements; the first match wins.
func (r *treeReader) replace(v module.Version, all ...replacements) Module {
	for _, from := range all {
		for _, to := range from.list {
			if to.Old.Path != v.Path || to.Old.Version != "" && to.Old.Version != v.Version {
				continue
			}
			m := Module{Path: to.New.Path, Version: to.New.Version, Replaces: v.Path + " " + v.Version}
			if to.New.Version == "" {
				m.Dir = to.New.Path
			}
			return r.locate(m, from.dir)
		}
	}
	return Module{Path: v.Path, Version: v.Version}
}

// locate finds the module in a directory that another module names. Outside of
// the tree only the name of the directory is known.
func (r *treeReader) locate(m Module, from string) Module {
	if m.Dir == "" || path.IsAbs(m.Dir) {
		return m
	}
	at := path.Join(from, strings.ReplaceAll(m.Dir, `\`, "/"))
	if f := r.files[at]; f != nil {
		return Module{Path: f.Module.Mod.Path, Local: at, Replaces: m.Replaces}
	}
	return m
}

// located is [treeReader.locate] for a list.
func (r *treeReader) located(list []Module, from string) []Module {
	return sorted(slice.Map(list, func(m Module) Module { return r.locate(m, from) }))
}

func (r *treeReader) read(name string) ([]byte, error) {
	raw, there := r.texts[name]
	switch {
	case !there:
		return nil, fs.ErrNotExist
	case len(raw) > maxModFile:
		return nil, verdict.Refuse(verdict.Limit, name, "more than %d bytes", maxModFile)
	}
	return raw, nil
}
