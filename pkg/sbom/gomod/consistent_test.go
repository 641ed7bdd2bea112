package gomod_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/sbom/gomod"
)

// TestCopiesOfAnotherState breaks the list of copies in one place after the
// other. The go command is asked the same question.
func TestCopiesOfAnotherState(t *testing.T) {
	dir, run := workspaceOf(t)
	run("work", "sync")
	run("work", "vendor")
	rows := []struct{ name, from, to, want string }{
		{"as it was made", "", "", ""},
		{"another version", "# example.test/wick v1.2.0\n", "# example.test/wick v1.1.0\n", `lists version "v1.1.0" of "example.test/wick", but go.mod requires v1.2.0`},
		{"a module that nothing asks for", "# example.test/wick v1.2.0\n", "# example.test/soot v1.0.0\n## explicit\nexample.test/soot\n# example.test/wick v1.2.0\n", `lists "example.test/soot" v1.0.0, which the workspace does not require`},
		{"not explicit", "## explicit; go 1.24\nexample.test/wick\n", "example.test/wick\n", `lacks "example.test/wick" v1.2.0, which go.mod requires`},
		{"replaced by another", "=> example.test/better v0.9.0", "=> example.test/better v0.8.0", `replaces "example.test/oil" by "example.test/better v0.8.0", but the workspace by another`},
		{"not replaced", "# example.test/oil => example.test/better v0.9.0\n", "", `does not replace "example.test/oil", but the workspace does`},
		{"replaced here alone", "# example.test/wick v1.2.0\n", "# example.test/wick v1.2.0 => example.test/better v0.9.0\n", `replaces "example.test/wick", but the workspace does not`},
	}
	at := filepath.Join(dir, "vendor", "modules.txt")
	raw, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			text := strings.ReplaceAll(string(raw), row.from, row.to)
			if row.from == "" {
				text = string(raw)
			} else if text == string(raw) {
				t.Fatalf("nothing was changed in\n%s", raw)
			}
			write(t, dir, map[string]string{"vendor/modules.txt": text})
			tree, err := gomod.ReadTree(textsIn(t, dir), []string{"."}, workspaceModules)
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(tree.Faults, "\n")
			if !strings.Contains(said, row.want) || (row.want == "") != (said == "") {
				t.Errorf("got %s, want %s", said, row.want)
			}
			if refused := strings.Contains(run("build", "./lib"), "inconsistent vendoring"); refused != (row.want != "") {
				t.Errorf("the go command says otherwise: %v", refused)
			}
		})
	}
}

// TestCopiesOfAModule is the same of a module alone.
func TestCopiesOfAModule(t *testing.T) {
	const asks = "module example.org/lantern\n\ngo 1.24\n\nrequire example.org/wick v1.2.3\n"
	const copies = "# example.org/wick v1.2.3\n## explicit; go 1.20\nexample.org/wick\n"
	for name, row := range map[string]struct{ mod, copies, want string }{
		"as it should be":                {asks, copies, ""},
		"another version":                {asks, strings.ReplaceAll(copies, "v1.2.3", "v1.2.4"), "go.mod requires v1.2.3"},
		"a module that go.mod has not":   {asks, copies + "# example.org/soot v1.0.0\nexample.org/soot\n", `lists "example.org/soot" v1.0.0, which go.mod does not require`},
		"the same of an older Go":        {strings.Replace(asks, "1.24", "1.16", 1), copies + "# example.org/soot v1.0.0\nexample.org/soot\n", ""},
		"a module that it has not":       {asks + "require example.org/oil v0.1.0\n", copies, `lacks "example.org/oil" v0.1.0`},
		"the same before there was that": {strings.Replace(asks, "1.24", "1.13", 1) + "require example.org/oil v0.1.0\n", copies, ""},
		"a replacement it has not":       {asks + "replace example.org/wick => ./wick\n", copies, `does not replace "example.org/wick"`},
		"a preview of a Go":              {strings.Replace(asks, "1.24", "1.27rc1", 1), copies, ""},
	} {
		got, err := gomod.ReadTree(tree(map[string]string{"go.mod": row.mod, "vendor/modules.txt": row.copies}), nil, []string{"."})
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(got.Faults, "\n")
		if !strings.Contains(said, row.want) || (row.want == "") != (said == "") {
			t.Errorf("%s: got %q, want %q", name, said, row.want)
		}
	}
}

// TestCopiesOfTheOther names a list of copies of a module where a workspace is,
// and the other way round: the go command takes neither.
func TestCopiesOfTheOther(t *testing.T) {
	const asks = "module example.org/lantern\n\ngo 1.24\n\nrequire example.org/wick v1.2.3\n"
	const copies = "# example.org/wick v1.2.3\n## explicit\nexample.org/wick\n"
	const work = "go 1.24\n\nuse ./lantern\n"
	for name, row := range map[string]struct {
		files       map[string]string
		works, dirs []string
		want        string
	}{
		"a module's in a workspace":     {map[string]string{"go.work": work, "lantern/go.mod": asks, "vendor/modules.txt": copies}, []string{"."}, []string{"lantern"}, "not marked as written for the workspace"},
		"a workspace's in a workspace":  {map[string]string{"go.work": work, "lantern/go.mod": asks, "vendor/modules.txt": "## workspace\n" + copies}, []string{"."}, []string{"lantern"}, ""},
		"a workspace's beside a module": {map[string]string{"go.mod": asks, "vendor/modules.txt": "## workspace\n" + copies}, nil, []string{"."}, "written for a workspace, but there is no go.work"},
		"a module's beside a module":    {map[string]string{"go.mod": asks, "vendor/modules.txt": copies}, nil, []string{"."}, ""},
	} {
		got, err := gomod.ReadTree(tree(row.files), row.works, row.dirs)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(got.Faults, "\n")
		if !strings.Contains(said, row.want) || (row.want == "") != (said == "") {
			t.Errorf("%s: got %q, want %q", name, said, row.want)
		}
	}
}
