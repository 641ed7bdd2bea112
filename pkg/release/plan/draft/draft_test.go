package draft_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/plan/draft"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// tree is a source tree of these files; a directory's name ends in main.go or
// not.
func tree(files ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		if text == "" {
			text = "package main\n\nfunc main() {}\n"
		}
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func TestWhatIsWrittenPlansTheProgram(t *testing.T) {
	const mod = "go.mod=module example.test/acme/lantern\n\ngo 1.26\n"
	rows := []struct {
		name  string
		files []string
		want  []string // of the plan
	}{
		{"one program at the top", []string{mod, "main.go", "LICENSE=x"},
			[]string{"bin/linux/amd64/lantern", "bin/windows/amd64/lantern.exe", "lantern_1.2.3_darwin_arm64.tar.gz", "lantern_1.2.3_windows_amd64.zip"}},
		{"one program below", []string{mod, "cmd/lantern/main.go"}, []string{"bin/linux/arm64/lantern"}},
		{"several beside each other", []string{mod, "cmd/a/main.go", "cmd/b/main.go", "README.md=x"},
			[]string{"bin/linux/amd64/a", "bin/linux/amd64/b", "provenance/compile-linux-amd64-b.sigstore.json"}},
		{"several apart", []string{mod, "main.go", "tools/gen/main.go"},
			[]string{"bin/linux/amd64/lantern", "bin/linux/amd64/gen", "provenance/compile-gen-linux-amd64.sigstore.json"}},
		{"a second major version", []string{"go.mod=module example.test/acme/lantern/v2 // comment\n", "main.go"}, []string{"bin/linux/amd64/lantern"}},
		{"a name that is none of ours", []string{"go.mod=module \"example.test/acme/The.Lantern\"\n", "main.go"}, []string{"bin/linux/amd64/the-lantern"}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p, err := draft.Discover(tree(r.files...))
			if err != nil {
				t.Fatal(err)
			}
			text := p.Write()
			c, err := plan.ParseConfig(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			v, err := version.Parse("v1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			planned, err := c.Expand(v)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, step := range planned.Steps {
				if len(step.Run) > 0 && (step.Root != plan.Scratch || !slices.Equal(step.Tools, []string{"go"})) {
					t.Errorf("step %s stands on %q with %v, and needs go alone", step.Instance, step.Root, step.Tools)
				}
			}
			for _, name := range r.want {
				if _, ok := planned.Find(name); !ok {
					t.Errorf("%s is not planned:\n%s", name, text)
				}
			}
			if n := strings.Count(string(text), "\n"); n > 45 {
				t.Errorf("a first file of %d lines", n)
			}
		})
	}
}

// TestModulesAreFetchedWhereNothingHoldsThem: a lock pins the module in any
// case; what a build fetches is another question.
func TestModulesAreFetchedWhereNothingHoldsThem(t *testing.T) {
	const mod = "go.mod=module example.test/lantern\n"
	const sums = "go.sum=example.test/dep v1.0.0 h1:aaaa=\n"
	for name, row := range map[string]struct {
		files []string
		want  string
	}{
		"no go.sum":           {[]string{mod, "main.go"}, ""},
		"an empty go.sum":     {[]string{mod, "main.go", "go.sum=\n"}, ""},
		"modules":             {[]string{mod, "main.go", sums}, "\nmodules: [.]"},
		"modules in vendor":   {[]string{mod, "main.go", sums, "vendor/modules.txt=# example.test/dep v1.0.0\n"}, ""},
		"a vendor of nothing": {[]string{mod, "main.go", sums, "vendor/README=x"}, "\nmodules: [.]"},
	} {
		p, err := draft.Discover(tree(row.files...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := string(p.Write())
		if got := strings.Contains(text, "\nmodules:"); got != (row.want != "") || !strings.Contains(text, row.want) {
			t.Errorf("%s:\n%s", name, text)
		}
		c, err := plan.ParseConfig([]byte(text))
		if err != nil || !slices.Equal(c.Needs().Modules, []string{"."}) {
			t.Errorf("%s: %v, needs %v", name, err, c.Needs().Modules)
		}
		v, err := version.Parse("v1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		if planned, err := c.Expand(v); err != nil || (len(planned.Modules) == 1) != (row.want != "") {
			t.Errorf("%s: a build fetches %q, %v", name, planned.Modules, err)
		}
	}
}

// found lists the programs that were found, with their packages.
func found(p draft.Project) (list []string) {
	for _, one := range p.Programs {
		list = append(list, one.Name+" "+one.Package)
	}
	return list
}

// TestVersionIsStamped: only into variables that the linker can set.
func TestVersionIsStamped(t *testing.T) {
	const mod = "go.mod=module example.test/lantern\n"
	for source, want := range map[string]string{
		"var version = \"dev\"":                           " -X main.version={version}",
		"var version string":                              " -X main.version={version}",
		"var (\n\tVersion = `x`\n\tcommit string\n)":      " -X main.Version={version} -X main.commit={commit.id}",
		"var version = other()":                           "",
		"var version int":                                 "",
		"var version, commit = \"a\", \"b\"":              "",
		"const version = \"dev\"":                         "",
		"func f() { var version = \"dev\"; _ = version }": "",
	} {
		p, err := draft.Discover(tree(mod, "main.go=package main\n\n"+source+"\n\nfunc main() {}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Programs[0].LDFlags; got != "-s -w"+want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

func TestWhatIsNoProgram(t *testing.T) {
	const mod = "go.mod=module example.test/lantern\n"
	p, err := draft.Discover(tree(mod, "cmd/lantern/main.go", "cmd/lantern/main_test.go=package main_test\n",
		"lib/lib.go=package lib\n", "testdata/x/main.go", "vendor/x/main.go", ".hidden/main.go", "_old/main.go",
		"gen/gen.go=//go:build ignore\n\npackage main\n", "win/main.go=//go:build windows\n\npackage main\n",
		"inner/go.mod=module example.test/inner\n", "inner/main.go", "broken/broken.go=package\n", "main.txt=package main\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"lantern ./cmd/lantern"}; !slices.Equal(found(p), want) {
		t.Errorf("programs %v, want %v", found(p), want)
	}
	if p.Repository != "https://example.test/lantern" {
		t.Errorf("repository %q", p.Repository)
	}
}

func TestDiscoverRefuses(t *testing.T) {
	const mod = "go.mod=module example.test/lantern\n"
	for name, row := range map[string]struct {
		files []string
		says  string
	}{
		"no module":                {[]string{"main.go"}, "go.mod"},
		"a module without a name":  {[]string{"go.mod=go 1.26\n", "main.go"}, "names no module"},
		"a library":                {[]string{mod, "lib.go=package lib\n"}, "no package main"},
		"two programs of one name": {[]string{mod, "cmd/a/main.go", "tools/a/main.go"}, "two programs"},
	} {
		_, err := draft.Discover(tree(row.files...))
		if err == nil || !strings.Contains(err.Error(), row.says) || verdict.FindingOf("", err).Code.Outcome() != verdict.Malformed {
			t.Errorf("%s: %v, want %q", name, err, row.says)
		}
	}
}

// TestThisProject: our own source is a project like any other.
// TestDevicesAreNotRead: a device may never end.
func TestDevicesAreNotRead(t *testing.T) {
	for mode, want := range map[fs.FileMode]verdict.Code{0: "", fs.ModeDevice: verdict.FileType, fs.ModeNamedPipe: verdict.FileType} {
		files := tree("go.mod=module example.test/lantern\n", "main.go", "go.sum=x\n")
		files["go.sum"].Mode = mode
		_, err := draft.Discover(files)
		if got := verdict.FindingOf("", err).Code; (err == nil) != (want == "") || err != nil && got != want {
			t.Errorf("%v: %v (%s)", mode, err, got)
		}
	}
}

func TestThisProject(t *testing.T) {
	p, err := draft.Discover(os.DirFS("../../../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"waybill", "k8s-verify-release"} {
		if !slices.Contains(found(p), name+" ./cmd/"+name) {
			t.Errorf("%s is not among %v", name, found(p))
		}
	}
	if _, err := plan.ParseConfig(p.Write()); err != nil {
		t.Error(err)
	}
}
