package gomod

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// maxModFile bounds one of the files of the Go toolchain.
const maxModFile = 16 << 20

// SourceModule is one module of a source tree: a directory with a go.mod.
type SourceModule struct {
	// Dir is its directory in the tree, "." for the root.
	Dir string
	// Path is the path of the module, Go the version of the language and
	// Toolchain the suggested toolchain, or "".
	Path, Go, Toolchain string
	// Deps are the modules that the build may use, with checksums.
	Deps []Module
	// Incomplete says why Deps may lack some, or is "".
	Incomplete string
	// Vendored says that Deps are those of the vendor directory.
	Vendored bool
}

// Tree is what a source tree consists of.
type Tree struct {
	Modules []SourceModule // by directory
	// Work lists the directories that go.work uses, as written.
	Work []string
	// Faults lists the files that do not parse, with the reason.
	Faults []string
}

// ReadTree reads the modules of a source tree, given the directories that have
// a go.mod, and the name of the go.work that binds them, or "".
func ReadTree(tree fs.FS, work string, dirs []string) (Tree, error) {
	var t Tree
	if len(dirs) > maxModules {
		return t, verdict.Refuse(verdict.Limit, "", "%d modules, the limit is %d", len(dirs), maxModules)
	}
	replaced, err := t.workspace(tree, work)
	if err != nil {
		return Tree{}, err
	}
	for _, dir := range slices.Sorted(slices.Values(dirs)) {
		m, err := readModule(tree, dir, replaced)
		var bad *parseError
		switch {
		case errors.As(err, &bad):
			t.Faults = append(t.Faults, bad.Error())
		case err != nil:
			return Tree{}, err
		default:
			t.Modules = append(t.Modules, m)
		}
	}
	return t, nil
}

// parseError is a file that does not parse.
type parseError struct {
	file string
	err  error
}

func (e *parseError) Error() string {
	return fmt.Sprintf("%s does not parse: %.300q", e.file, e.err.Error())
}

func (t *Tree) workspace(tree fs.FS, name string) ([]*modfile.Replace, error) {
	if name == "" {
		return nil, nil
	}
	raw, err := readFile(tree, name)
	if err != nil {
		return nil, err
	}
	w, err := modfile.ParseWork(name, raw, nil)
	if err != nil {
		t.Faults = append(t.Faults, (&parseError{name, err}).Error())
		return nil, nil //nolint:nilerr // a file that does not parse is listed, and the rest is read
	}
	for _, u := range w.Use {
		t.Work = append(t.Work, u.Path)
	}
	return w.Replace, nil
}

func readModule(tree fs.FS, dir string, work []*modfile.Replace) (SourceModule, error) {
	name := path.Join(dir, "go.mod")
	raw, err := readFile(tree, name)
	if err != nil {
		return SourceModule{}, err
	}
	f, err := modfile.Parse(name, raw, nil)
	if err != nil {
		return SourceModule{}, &parseError{name, err}
	}
	if f.Module == nil || len(f.Require) > maxModules {
		return SourceModule{}, &parseError{name, errors.New("no module, or too many requirements")}
	}
	m := SourceModule{Dir: dir, Path: f.Module.Mod.Path}
	if f.Go != nil {
		m.Go = f.Go.Version
	}
	if f.Toolchain != nil {
		m.Toolchain = f.Toolchain.Name
	}
	sums, err := readSums(tree, path.Join(dir, "go.sum"))
	if err != nil {
		return SourceModule{}, err
	}
	vendored, err := readVendor(tree, path.Join(dir, "vendor", "modules.txt"))
	switch {
	case err == nil:
		m.Vendored, m.Deps = true, withSums(vendored, sums)
		return m, nil
	case !errors.Is(err, fs.ErrNotExist):
		return SourceModule{}, err
	}
	// Since Go 1.17 go.mod lists every module that the packages of the main
	// module are built from; before, only what is required directly.
	if m.Go == "" || semver.Compare("v"+m.Go, "v1.17") < 0 {
		m.Incomplete = name + " is of a Go before 1.17 and lists direct requirements only"
	}
	for _, r := range f.Require {
		m.Deps = append(m.Deps, replace(r.Mod, work, f.Replace))
	}
	m.Deps = sorted(withSums(m.Deps, sums))
	return m, nil
}

// replace applies the replacements of go.work, which win, and of go.mod.
func replace(v module.Version, lists ...[]*modfile.Replace) Module {
	for _, list := range lists {
		for _, r := range list {
			if r.Old.Path != v.Path || r.Old.Version != "" && r.Old.Version != v.Version {
				continue
			}
			m := Module{Path: r.New.Path, Version: r.New.Version, Replaces: v.Path + " " + v.Version}
			if r.New.Version == "" {
				m.Dir = r.New.Path
			}
			return m
		}
	}
	return Module{Path: v.Path, Version: v.Version}
}

func withSums(list []Module, sums Sums) []Module {
	for i, m := range list {
		if m.Dir == "" {
			list[i].Sum = sums[m.Path+" "+m.Version]
		}
	}
	return list
}

// Sums are checksums by "path version".
type Sums map[string]string

// ParseSums reads go.sum. Lines of go.mod files are passed over; two checksums
// of one module are refused.
func ParseSums(raw []byte) (Sums, error) {
	sums := Sums{}
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 {
			return nil, &parseError{"go.sum", fmt.Errorf("line %d has %d fields, not 3", n, len(fields))}
		}
		if strings.HasSuffix(fields[1], "/go.mod") {
			continue
		}
		key := fields[0] + " " + fields[1]
		if was, there := sums[key]; there && was != fields[2] {
			return nil, &parseError{"go.sum", fmt.Errorf("line %d: two checksums of %s", n, key)}
		}
		sums[key] = fields[2]
	}
	return sums, nil
}

func readSums(tree fs.FS, name string) (Sums, error) {
	raw, err := readFile(tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Sums{}, nil
	}
	if err != nil {
		return nil, err
	}
	return ParseSums(raw)
}

// readVendor reads vendor/modules.txt: the modules of which packages were
// copied into the tree.
func readVendor(tree fs.FS, name string) ([]Module, error) {
	raw, err := readFile(tree, name)
	if err != nil {
		return nil, err
	}
	var list []Module
	for line := range strings.Lines(string(raw)) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !found {
			continue
		}
		old, now, replaced := strings.Cut(rest, " => ")
		mod := func(s string) (m Module) {
			m.Path, m.Version, _ = strings.Cut(strings.TrimSpace(s), " ")
			return m
		}
		m := mod(old)
		if replaced {
			m = mod(now)
			m.Replaces = strings.TrimSpace(old)
			if m.Version == "" {
				m.Dir = m.Path
			}
		}
		if m.Version == "" && !replaced {
			continue // a replacement that is listed once more at the end
		}
		if len(list) > maxModules {
			return nil, verdict.Refuse(verdict.Limit, name, "more than %d modules", maxModules)
		}
		list = append(list, m)
	}
	return sorted(list), nil
}

func readFile(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxModFile+1))
	if err == nil && len(raw) > maxModFile {
		err = verdict.Refuse(verdict.Limit, name, "more than %d bytes", maxModFile)
	}
	return raw, err
}
