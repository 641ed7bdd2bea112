// The architecture of Waybill, as tests: one question per check, each asked of
// the parsed source of this checkout. A refusal is a sentence that names the
// place, the fault and the way out. The same checks are asked of seeded
// violations in seeds_test.go, so that none of them can fall asleep.
//
//	make arch
package arch_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// root is the top of this checkout, which is the root module.
const root = "../.."

// modulePath is the path of the root module; the test module stands below it.
const modulePath = "github.com/waybill-release/waybill"

// A check asks one question of a tree and answers with its refusals.
type check struct {
	name string
	ask  func(*tree) []string
}

// checks is every question that needs no more than the parsed source.
var checks = []check{
	{"top level", topLevel},
	{"layout", importsGoUp},
	{"pure folders", pureFolders},
	{"forbidden symbols", forbiddenSymbols},
	{"exported signatures", exportedSignatures},
	{"sizes", sizes},
	{"signatures", signatures},
	{"shapes", shapes},
	{"methods", methods},
	{"package names", packageNames},
	{"package variables", packageVariables},
	{"documentation", documentation},
	{"exits", exits},
	{"transports", transports},
	{"gate requests", gateRequests},
	{"share of cmd", shareOfCmd},
	{"versions", versionsAgree},
	{"dependency reasons", dependencyReasons},
	{"known faults", knownFaults},
	{"machine paths", machinePaths},
	{"page layout", pageShowsLayout},
	{"page paths", pageNamesFiles},
	{"page examples", pageShowsExamples},
	{"folder readmes", folderReadmes},
	{"public examples", publicExamples},
	{"private comments", privateComments},
}

func TestArch(t *testing.T) {
	checkout := parseTree(t, os.DirFS(root))
	if len(checkout.files) < 20 {
		t.Fatalf("only %d Go files found: the tree was not read", len(checkout.files))
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, refusal := range c.ask(checkout) {
				t.Error(refusal)
			}
		})
	}
}

// A tree is the repository: its file names, and its Go files parsed.
type tree struct {
	fsys  fs.FS
	names []string // every file that git would track, sorted
	set   *token.FileSet
	files []*source
}

// A source is one Go file.
type source struct {
	path    string // "pkg/value/digest/digest.go"
	room    string // "pkg/value/digest"
	lines   int
	file    *ast.File
	imports map[string]string // local name to import path
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// inProduct says whether the file is shipped: the root module without test support.
func (s *source) inProduct() bool { return !under(s.path, "test") && !under(s.path, testSupport) }

// parseTree reads a repository. What does not parse fails the test.
func parseTree(t *testing.T, fsys fs.FS) *tree {
	t.Helper()
	tr := &tree{fsys: fsys, set: token.NewFileSet()}
	skip := ignored(t, fsys)
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".git" || skip(name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		tr.names = append(tr.names, name)
		if path.Ext(name) == ".go" && !strings.Contains(name, "testdata/") {
			return tr.parse(name)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("reading the tree: %v", err)
	}
	return tr
}

func (tr *tree) parse(name string) error {
	text, err := fs.ReadFile(tr.fsys, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(tr.set, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	s := &source{
		path:    name,
		room:    path.Dir(name),
		lines:   bytes.Count(text, []byte("\n")),
		file:    file,
		imports: map[string]string{},
	}
	for _, spec := range file.Imports {
		where, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		local := packageName(where)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "_" || local == "." {
			local += where // kept apart: each names a package, none a selector
		}
		s.imports[local] = where
	}
	tr.files = append(tr.files, s)
	return nil
}

// packageName guesses the name of a package from its import path: the last
// element that is not a major version.
func packageName(where string) string {
	last := path.Base(where)
	if len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		last = path.Base(path.Dir(where))
	}
	return strings.TrimPrefix(strings.ReplaceAll(last, "-", ""), "go.")
}

// ignored reads .gitignore, of which this repository uses three shapes only:
// "/path/", "/path" and "*.suffix".
func ignored(t *testing.T, fsys fs.FS) func(string) bool {
	t.Helper()
	text, err := fs.ReadFile(fsys, ".gitignore")
	if err != nil {
		text = nil // a seeded tree needs none
	}
	var paths, suffixes []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "/"):
			paths = append(paths, strings.Trim(line, "/"))
		case strings.HasPrefix(line, "*.") && !strings.Contains(line[1:], "*"):
			suffixes = append(suffixes, line[1:])
		default:
			t.Fatalf(".gitignore: %q is none of /path, /path/ and *.suffix", line)
		}
	}
	return func(name string) bool {
		for _, p := range paths {
			if under(name, p) {
				return true
			}
		}
		for _, s := range suffixes {
			if strings.HasSuffix(name, s) {
				return true
			}
		}
		return false
	}
}

// under says whether a path is a directory or stands below it.
func under(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}

// at names a place in the tree, "pkg/value/digest/digest.go:12".
func (tr *tree) at(pos token.Pos) string {
	p := tr.set.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// span counts the lines of a node.
func (tr *tree) span(n ast.Node) int {
	return tr.set.Position(n.End()).Line - tr.set.Position(n.Pos()).Line + 1
}

// code lists the files that are not tests.
func (tr *tree) code() []*source {
	var out []*source
	for _, s := range tr.files {
		if !s.isTest() {
			out = append(out, s)
		}
	}
	return out
}

// product lists the files of the root module that are neither tests nor their support.
func (tr *tree) product() []*source {
	var out []*source
	for _, s := range tr.code() {
		if s.inProduct() {
			out = append(out, s)
		}
	}
	return out
}

// rooms groups files by package directory.
func rooms(files []*source) map[string][]*source {
	out := map[string][]*source{}
	for _, s := range files {
		out[s.room] = append(out[s.room], s)
	}
	return out
}

// sorted lists the keys of a map, so that refusals come in one order.
func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// selected resolves "name.Sel": the import path of name, "" where it is a value
// and not a package, and Sel.
func (s *source) selected(n ast.Node) (where, symbol string) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if id, ok := sel.X.(*ast.Ident); ok && id.Obj == nil {
		where = s.imports[id.Name]
	}
	return where, sel.Sel.Name
}

// requirements reads the require blocks of a go.mod file.
func requirements(text []byte, indirect bool) map[string]string {
	out := map[string]string{}
	block := false
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		line := strings.TrimSpace(scan.Text())
		switch {
		case line == "require (":
			block = true
			continue
		case line == ")":
			block = false
			continue
		case strings.HasPrefix(line, "require "):
			line = strings.TrimPrefix(line, "require ")
		case !block:
			continue
		}
		words := strings.Fields(line)
		if len(words) >= 2 && words[0] != "//" && strings.HasSuffix(line, "// indirect") == indirect {
			out[words[0]] = words[1]
		}
	}
	return out
}
