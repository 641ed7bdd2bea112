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

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits on the source tree.
const (
	maxEntries = 500_000
	maxSource  = 4 << 20
	maxMains   = 200
	// maxPlatforms is more than Go has.
	maxPlatforms = 100
)

// Discover finds the module, its programs and the files for archives.
func Discover(tree fs.FS) (Project, error) {
	raw, err := read(tree, "go.mod")
	if errors.Is(err, fs.ErrNotExist) {
		return Project{}, verdict.Refuse(verdict.Usage, "go.mod", "no go.mod here, and release.yaml is written for a Go module").
			Advise("run init in the top directory of the module, or name it with --dir")
	}
	if err != nil {
		return Project{}, err
	}
	module := modulePath(string(raw))
	if module == "" {
		return Project{}, verdict.Refuse(verdict.ConfigParse, "go.mod", "the go.mod names no module")
	}
	p := Project{Name: plainName(path.Base(withoutMajor(module))), Repository: "https://" + repositoryOf(module)}
	p.Place = "https://dl.example.test/" + p.Name + "/{version}/"
	if p.Programs, err = programs(tree, p.Name); err != nil {
		return Project{}, err
	}
	if len(p.Programs) == 0 {
		return Project{}, verdict.Refuse(verdict.Usage, module, "the module has no package main, so there is no program to release").
			Advise("run init in the module of a program, or name it with --dir")
	}
	if p.Modules, err = fetches(tree); err != nil {
		return Project{}, err
	}
	for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING", "NOTICE", "README.md", "README"} {
		if info, err := fs.Stat(tree, name); err == nil && info.Mode().IsRegular() {
			p.add = append(p.add, name)
		}
	}
	p.pack(platforms())
	return p, nil
}

// pack plans the archives of all programs, in the formats that users of a
// platform expect.
func (p *Project) pack(all []string) {
	name := p.Name + "_{version.number}_{os}_{arch}"
	take := slice.Map(p.Programs, func(one Program) string { return one.Name })
	windows := func(platform string) bool { return strings.HasPrefix(platform, "windows/") }
	unix, zip := slices.DeleteFunc(slices.Clone(all), windows), slices.DeleteFunc(slices.Clone(all), func(p string) bool { return !windows(p) })
	p.Archives = []Archive{
		{Name: name, Format: "tar.gz", Add: p.add, Take: take, Platforms: unix}, {Name: name, Format: "zip", Add: p.add, Take: take, Platforms: zip},
	}
}

// stamps are the linker flags that tell a program its version and commit, if
// it has string variables for them.
func stamps(tree fs.FS, dir string) string {
	values := map[string]string{"version": "{version}", "Version": "{version}", "commit": "{commit.id}", "Commit": "{commit.id}"}
	flags := "-s -w"
	names, err := fs.Glob(tree, path.Join(dir, "*.go"))
	if err != nil {
		return flags
	}
	for _, name := range names {
		raw, err := read(tree, name)
		if err != nil || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, raw, parser.SkipObjectResolution)
		if err != nil || file.Name.Name != "main" {
			continue
		}
		for _, d := range file.Decls {
			general, _ := d.(*ast.GenDecl)
			if general == nil || general.Tok != token.VAR {
				continue
			}
			for _, spec := range general.Specs {
				v, _ := spec.(*ast.ValueSpec)
				if value := values[v.Names[0].Name]; value != "" && isPlainText(v) {
					flags += " -X main." + v.Names[0].Name + "=" + value
				}
			}
		}
	}
	return flags
}

// isPlainText reports whether the linker can set a variable: one string, that
// is empty or a constant text.
func isPlainText(v *ast.ValueSpec) bool {
	kind, _ := v.Type.(*ast.Ident)
	if len(v.Names) != 1 || v.Type != nil && (kind == nil || kind.Name != "string") {
		return false
	}
	if len(v.Values) == 0 {
		return v.Type != nil
	}
	text, _ := v.Values[0].(*ast.BasicLit)
	return text != nil && text.Kind == token.STRING
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

// programs finds the programs of the module. Two programs of one name would
// clash in bin/, so the second is refused.
func programs(tree fs.FS, module string) (list []Program, err error) {
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
		m := Program{Name: program(dir, module), Package: packageOf(dir), LDFlags: stamps(tree, dir), Platforms: platforms()}
		if other, twice := names[m.Name]; twice {
			return nil, verdict.Refuse(verdict.Usage, m.Name, "two programs have that name, in %q and %q", min(other, dir), max(other, dir)).
				Advise("rename a directory, or write release.yaml by hand")
		}
		names[m.Name] = dir
		list = append(list, m)
	}
	if len(list) > maxMains {
		return nil, verdict.Refuse(verdict.Limit, module, "%d programs, more than %d", len(list), maxMains)
	}
	slices.SortFunc(list, func(a, b Program) int { return strings.Compare(a.Package, b.Package) })
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
	switch {
	case !info.Mode().IsRegular(): // a device may never end
		return nil, verdict.Refuse(verdict.FileType, name, "not a regular file").Advise("replace it by a file, or remove it")
	case info.Size() > maxSource:
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

// packageOf is the package of a directory, as go build names it.
func packageOf(dir string) string {
	if dir == "." {
		return "."
	}
	return "./" + dir
}

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
