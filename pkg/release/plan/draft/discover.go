package draft

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits on the source tree.
const (
	maxEntries = 500_000
	maxSource  = 4 << 20
	maxMains   = 200
)

// Discover finds the module, its programs and the files for archives.
func Discover(tree fs.FS) (Project, error) {
	raw, err := read(tree, "go.mod")
	if errors.Is(err, fs.ErrNotExist) {
		return Project{}, verdict.Refuse(verdict.Usage, "go.mod", "no go.mod here: run init in the top directory of a Go module, or write release.yaml by hand")
	}
	if err != nil {
		return Project{}, err
	}
	module := modulePath(string(raw))
	if module == "" {
		return Project{}, verdict.Refuse(verdict.ConfigParse, "go.mod", "the go.mod names no module")
	}
	p := Project{Name: nameOf(module), Repository: "https://" + repositoryOf(module), Platforms: platforms()}
	if p.Mains, err = mains(tree, p.Name); err != nil {
		return Project{}, err
	}
	if len(p.Mains) == 0 {
		return Project{}, verdict.Refuse(verdict.Usage, module, "the module has no package main, so there is no program to release")
	}
	if p.Modules, err = fetches(tree); err != nil {
		return Project{}, err
	}
	for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING", "NOTICE", "README.md"} {
		if info, err := fs.Stat(tree, name); err == nil && info.Mode().IsRegular() {
			p.Add = append(p.Add, name)
		}
	}
	return p, nil
}

// fetches reports whether the module needs modules that are not in the source.
func fetches(tree fs.FS) (bool, error) {
	sums, err := read(tree, "go.sum")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = fs.Stat(tree, "vendor/modules.txt")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return err != nil && len(strings.TrimSpace(string(sums))) > 0, nil
}

// mains finds the programs of the module. Two programs of one name would clash
// in bin/, so the second is refused.
func mains(tree fs.FS, module string) (list []Main, err error) {
	found, entries := map[string]bool{}, 0
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entries++; entries > maxEntries {
			return verdict.Refuse(verdict.Limit, name, "the source has more than %d files", maxEntries)
		}
		if d.IsDir() {
			return enter(tree, name)
		}
		dir := path.Dir(name)
		if found[dir] || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || !d.Type().IsRegular() {
			return nil
		}
		is, err := isMain(tree, name)
		found[dir] = is
		return err
	})
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for dir, is := range found {
		if !is {
			continue
		}
		m := Main{Name: program(dir, module), Dir: dir}
		if other, twice := names[m.Name]; twice {
			return nil, verdict.Refuse(verdict.Usage, m.Name, "two programs have that name, in %q and %q; rename a directory", min(other, dir), max(other, dir))
		}
		names[m.Name] = dir
		list = append(list, m)
	}
	if len(list) > maxMains {
		return nil, verdict.Refuse(verdict.Limit, module, "%d programs, more than %d", len(list), maxMains)
	}
	slices.SortFunc(list, func(a, b Main) int { return strings.Compare(a.Dir, b.Dir) })
	return list, nil
}

// enter skips directories that the go tool skips too, and modules inside the
// module.
func enter(tree fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	base := path.Base(dir)
	if base == "vendor" || base == "testdata" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	if _, err := fs.Stat(tree, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// isMain reports whether a file is part of a program that is built on Linux. If
// it does not parse, the compiler will say so.
func isMain(tree fs.FS, name string) (bool, error) {
	raw, err := read(tree, name)
	if err != nil {
		return false, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, raw, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		return false, nil //nolint:nilerr // see above
	}
	return file.Name.Name == "main" && built(file), nil
}

// built evaluates the build constraint above the package clause.
func built(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() > file.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			return err == nil && expr.Eval(func(tag string) bool {
				return slices.Contains([]string{"linux", "amd64", "unix", "gc", "cgo"}, tag) || strings.HasPrefix(tag, "go1.")
			})
		}
	}
	return true
}

func read(tree fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(tree, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSource {
		return nil, verdict.Refuse(verdict.Limit, name, "%d bytes, more than %d", info.Size(), maxSource)
	}
	raw, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	return raw, nil
}

// modulePath is the module path in a go.mod, or "".
func modulePath(mod string) string {
	for line := range strings.Lines(mod) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		if len(words) == 2 && words[0] == "module" {
			return strings.Trim(words[1], "\"`")
		}
	}
	return ""
}

// withoutMajor removes /v2 and the like from a module path.
func withoutMajor(module string) string {
	base := path.Base(module)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Dir(module)
	}
	return module
}

// repositoryOf guesses the repository: host, owner and name.
func repositoryOf(module string) string {
	parts := strings.Split(withoutMajor(module), "/")
	return strings.Join(parts[:min(3, len(parts))], "/")
}

// nameOf makes a project name from the last element of a module path.
func nameOf(module string) string { return plainName(path.Base(withoutMajor(module))) }

// program is the name that go build gives the program of a directory.
func program(dir, module string) string {
	if dir == "." {
		return module
	}
	return plainName(path.Base(dir))
}

// plainName converts a word to the grammar of names.
func plainName(word string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(word))
	if name = strings.Trim(name, "-"); name == "" {
		return "project"
	}
	return name[:min(len(name), 64)]
}
