// Package mutation breaks the product on purpose, one place at a time, to see
// whether the tests notice. All mutants are compiled in at once, each behind a
// switch, so that the product and its tests are built once and a mutant costs
// no more than the tests that reach it.
package mutation

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/waybill-release/waybill"

//go:embed switch.go.txt
var switchSource string

var (
	clause = regexp.MustCompile(`(?m)^package \w+`)
	tests  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\((?:t \*testing\.T|f \*testing\.F)?\) \{`)
)

// enter makes each test say that it begins, except where tests run side by side.
func enter(root string, write func(path, content string) error) error {
	return filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") {
			return fs.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			return err
		}
		sources := map[string]string{}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if strings.Contains(string(source), "t.Parallel()") {
				return nil
			}
			if tests.Match(source) {
				sources[file] = tests.ReplaceAllString(string(source), `$0 atTest.Enter("$1");`)
			}
		}
		for _, file := range sorted(sources) {
			at := clause.FindStringIndex(sources[file])[1]
			if err := write(file, sources[file][:at]+`; import atTest "`+module+`/pkg/mutant"`+sources[file][at:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Packages are those that judge, promote and serve, and what they stand on.
var Packages = []string{
	"./pkg/judge/...", "./pkg/gate/...", "./pkg/pipeline/promote/...", "./pkg/serve/...",
	"./pkg/document/intoto", "./pkg/document/vsa", "./pkg/document/provenance", "./pkg/value/identity",
	"./pkg/release/manifest", "./pkg/backend/registry", "./pkg/backend/lease", "./pkg/govern/signoff/...",
}

// perFile is how many numbers a file has for its mutants.
const perFile = 1000

// Switch writes the mutants of packages of the product at root, each behind a
// switch, below dir, and returns them. Go builds with them where GOFLAGS has
// -overlay with the file that Switch names.
func Switch(root, dir string, patterns []string) (mutants []Mutant, overlay string, err error) {
	// A position needs the same file name always; types need what is imported compiled.
	loaded, err := packages.Load(&packages.Config{
		Dir:  root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
	}, patterns...)
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	replace := map[string]string{}
	write := func(path, content string) error {
		to := filepath.Join(dir, "source", fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		replace[path] = to
		return os.WriteFile(to, []byte(content), 0o600)
	}
	if err := os.MkdirAll(filepath.Join(dir, "source"), 0o700); err != nil {
		return nil, "", err
	}
	files := 0
	for _, p := range loaded {
		for _, e := range p.Errors {
			return nil, "", fmt.Errorf("%s: %w", p.PkgPath, e)
		}
		for _, file := range p.Syntax {
			path := p.Fset.Position(file.Pos()).Filename
			source, err := os.ReadFile(path)
			if err != nil {
				return nil, "", err
			}
			// Each file has its own numbers, so that a change of one compiles no other again.
			files++
			f := finder{pkg: p, file: file, source: source, next: files * perFile, asked: map[ast.Expr]bool{}, loops: map[ast.Expr]bool{}}
			f.find()
			if len(f.mutants) == 0 {
				continue
			}
			if len(f.mutants) >= perFile {
				return nil, "", fmt.Errorf("%s has %d mutants, and a file has numbers for %d", path, len(f.mutants), perFile)
			}
			name := f.offset(file.Name.End())
			text := apply(source, append(f.wraps, wrap{name, name, `; import mutant "` + module + `/pkg/mutant"`, ""}))
			if _, err := format.Source([]byte(text)); err != nil {
				return nil, "", fmt.Errorf("%s: the mutants do not parse: %w", path, err)
			}
			if err := write(path, text); err != nil {
				return nil, "", err
			}
			mutants = append(mutants, f.mutants...)
		}
	}
	if len(mutants) == 0 {
		return nil, "", fmt.Errorf("nothing to mutate in %s", strings.Join(patterns, " "))
	}
	if err := write(filepath.Join(root, "pkg", "mutant", "mutant.go"), strings.Replace(switchSource, "DIRECTORY", dir, 1)); err != nil {
		return nil, "", err
	}
	if err := enter(root, write); err != nil {
		return nil, "", err
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return mutants, overlay, os.WriteFile(overlay, content, 0o600)
}
