package gomod_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/waybill-release/waybill/pkg/sbom/gomod"
)

// proxy serves modules of one package each from a directory.
func proxy(t *testing.T, mods ...module.Version) string {
	t.Helper()
	root := t.TempDir()
	for _, m := range mods {
		source := t.TempDir()
		text := "module " + m.Path + "\n\ngo 1.24\n"
		write(t, source, map[string]string{"go.mod": text, "m.go": "package m\n", "LICENSE": "one of its own\n"})
		at := filepath.Join(root, m.Path, "@v", m.Version)
		write(t, filepath.Dir(at), map[string]string{m.Version + ".mod": text, m.Version + ".info": fmt.Sprintf(`{"Version":%q}`, m.Version)})
		f, err := os.Create(at + ".zip")
		if err != nil {
			t.Fatal(err)
		}
		if err := zip.CreateFromDir(f, m, source); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + root
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// workspaceOf is a workspace of three modules: one within another, and one
// that go.mod and go.work name in two ways. A fourth module is not of it.
func workspaceOf(t *testing.T) (dir string, run func(args ...string) string) {
	t.Helper()
	from := proxy(t, module.Version{Path: "example.test/wick", Version: "v1.0.0"}, module.Version{Path: "example.test/wick", Version: "v1.2.0"},
		module.Version{Path: "example.test/oil", Version: "v0.1.0"}, module.Version{Path: "example.test/better", Version: "v0.9.0"},
		module.Version{Path: "example.test/unused", Version: "v1.0.0"})
	dir = t.TempDir()
	write(t, dir, map[string]string{
		"go.work":    "go 1.24\n\nuse (\n\t./app\n\t./lib\n\t./lib/part\n)\n\nreplace example.test/oil => example.test/better v0.9.0\n",
		"app/go.mod": "module example.test/app\n\ngo 1.24\n\nrequire (\n\texample.test/lib v0.0.0\n\texample.test/lib/part v0.0.0\n\texample.test/wick v1.0.0\n\texample.test/unused v1.0.0\n)\n\nreplace (\n\texample.test/lib => ../lib\n\texample.test/lib/part => ../lib/part\n)\n",
		"app/a.go":   "package main\n\nimport (\n\t_ \"example.test/lib\"\n\t_ \"example.test/lib/part\"\n\t_ \"example.test/wick\"\n)\n\nfunc main() {}\n",
		"lib/go.mod": "module example.test/lib\n\ngo 1.24\n\nrequire (\n\texample.test/oil v0.1.0\n\texample.test/wick v1.2.0\n)\n",
		"lib/l.go":   "package lib\n\nimport (\n\t_ \"example.test/oil\"\n\t_ \"example.test/wick\"\n)\n",
		// Its own state, which nobody builds in the workspace.
		"lib/part/go.mod": "module example.test/lib/part\n\ngo 1.24\n",
		"lib/part/p.go":   "package part\n",
		"other/go.mod":    "module example.test/other\n\ngo 1.24\n\nrequire example.test/wick v1.0.0\n",
	})
	cache := t.TempDir()
	run = func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY="+from, "GONOSUMDB=*", "GONOSUMCHECK=1", "GOFLAGS=-modcacherw", "GOWORK=", "GOTOOLCHAIN=local", "GOMODCACHE="+cache, "GOSUMDB=off")
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "inconsistent vendoring") {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	return dir, run
}

var workspaceModules = []string{"app", "lib", "lib/part", "other"}

// depsOf are the dependencies of one module of a tree, in words.
func depsOf(t *testing.T, tree gomod.Tree, dir string) (list []string) {
	t.Helper()
	for _, m := range tree.Modules {
		if m.Dir != dir {
			continue
		}
		for _, d := range m.Deps {
			s := strings.TrimSpace(d.Path + " " + d.Version)
			if d.Local != "" {
				s += " in " + d.Local
			}
			if d.Replaces != "" {
				s += " for " + d.Replaces
			}
			if d.Asked != "" {
				s += " not " + d.Asked
			}
			if d.Local == "" && !strings.HasPrefix(d.Sum, "h1:") {
				s += " without checksum"
			}
			list = append(list, s)
		}
		return list
	}
	t.Fatalf("no module in %q: %+v", dir, tree)
	return nil
}

// TestWorkspace reads what the go command makes of a workspace: without copies
// of its modules, and with them.
func TestWorkspace(t *testing.T) {
	dir, run := workspaceOf(t)
	asked := read(t, dir, "app/go.mod")
	run("work", "sync")
	write(t, dir, map[string]string{"app/go.mod": asked}) // as it was before
	run("build", "-o", filepath.Join(t.TempDir(), "app"), "./app")
	plain := treeOf(t, dir)
	for at, want := range map[string][]string{
		"app": {"example.test/lib in lib", "example.test/lib/part in lib/part", "example.test/unused v1.0.0 without checksum", "example.test/wick v1.2.0 not v1.0.0"},
		"lib": {"example.test/better v0.9.0 for example.test/oil v0.1.0", "example.test/wick v1.2.0"},
		// Outside of the workspace nothing of it counts, and nobody summed it.
		"other": {"example.test/wick v1.0.0 without checksum"},
	} {
		if got := depsOf(t, plain, at); !slices.Equal(got, want) {
			t.Errorf("%s:\n got  %q\n want %q", at, got, want)
		}
	}

	run("work", "vendor")
	copied := treeOf(t, dir)
	for at, want := range map[string][]string{
		"app":   {"example.test/lib in lib", "example.test/lib/part in lib/part", "example.test/wick v1.2.0"}, // what is not used was not copied
		"lib":   {"example.test/better v0.9.0 for example.test/oil v0.1.0", "example.test/wick v1.2.0"},
		"other": {"example.test/wick v1.0.0 without checksum"},
	} {
		if got := depsOf(t, copied, at); !slices.Equal(got, want) {
			t.Errorf("with copies, %s:\n got  %q\n want %q", at, got, want)
		}
	}
	// The program says the same of itself.
	program := filepath.Join(t.TempDir(), "app")
	run("build", "-o", program, "./app")
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bin, err := gomod.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range bin.Deps {
		if m.Path == "example.test/wick" && m.Version != "v1.2.0" {
			t.Errorf("the program has %+v", m)
		}
	}
	for _, m := range copied.Modules {
		if inside := m.Dir != "other"; inside != (m.Work == "go.work") || inside != (m.Vendor == "vendor") {
			t.Errorf("%+v", m)
		}
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// textsIn are all files of a directory.
func textsIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	texts := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			texts[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func treeOf(t *testing.T, dir string) gomod.Tree {
	t.Helper()
	tree, err := gomod.ReadTree(textsIn(t, dir), []string{"."}, workspaceModules)
	if err != nil || len(tree.Faults) > 0 {
		t.Fatalf("%+v %v", tree.Faults, err)
	}
	return tree
}

// TestTreeFaults names what is wrong, and reads the rest.
func TestTreeFaults(t *testing.T) {
	const lantern = "module example.org/lantern\n\ngo 1.24\n\nrequire example.org/wick v1.2.3\n"
	for name, row := range map[string]struct {
		files map[string]string
		want  string
	}{
		"go.work uses what is not there": {map[string]string{"go.work": "go 1.24\n\nuse ./gone\nuse .\n"}, "the tree has no module there"},
		"go.work uses what is elsewhere": {map[string]string{"go.work": "go 1.24\n\nuse ../other\nuse .\n"}, "the tree has no module there"},
		"go.work is none":                {map[string]string{"go.work": "gowork\n"}, "go.work does not parse"},
		"go.sum is none":                 {map[string]string{"go.sum": "one word\n"}, "go.sum does not parse"},
		"two checksums of one module": {map[string]string{
			"go.work": "go 1.24\n\nuse .\n", "go.sum": "example.org/wick v1.2.3 h1:a=\n", "go.work.sum": "example.org/wick v1.2.3 h1:b=\n",
		}, "a different checksum"},
		"copies of another version": {map[string]string{
			"vendor/modules.txt": "# example.org/wick v1.2.4\n## explicit\nexample.org/wick\n",
		}, "go.mod requires v1.2.3"},
	} {
		files := map[string]string{"go.mod": lantern}
		for at, text := range row.files {
			files[at] = text
		}
		var works []string
		if files["go.work"] != "" {
			works = []string{"."}
		}
		got, err := gomod.ReadTree(tree(files), works, []string{"."})
		if err != nil || len(got.Modules) != 1 || len(got.Modules[0].Deps) != 1 {
			t.Errorf("%s: %+v %v", name, got, err)
			continue
		}
		if said := strings.Join(append(got.Faults, got.Modules[0].Incomplete), "\n"); !strings.Contains(said, row.want) {
			t.Errorf("%s: %q, want %q", name, said, row.want)
		}
	}
	fine, err := gomod.ReadTree(tree(map[string]string{"go.mod": lantern, "go.work": "go 1.24\n\nuse .\n"}), []string{"."}, []string{"."})
	if err != nil || len(fine.Faults) > 0 || fine.Modules[0].Incomplete != "" {
		t.Errorf("%+v %v", fine, err)
	}
}
