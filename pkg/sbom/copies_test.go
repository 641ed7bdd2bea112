package sbom_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/sbom"
)

// TestCopiesOfModules: what copies of modules do not say, or say of another
// state, an SBOM names as not examined; of a workspace as of a module alone.
func TestCopiesOfModules(t *testing.T) {
	const asks = "module example.org/lantern\n\ngo 1.24\n\nrequire example.org/wick v1.2.3\n"
	const copies = "# example.org/wick v1.2.3\n## explicit\nexample.org/wick\n"
	for _, row := range []struct{ name, at, list, want string }{
		{"a module", "", copies, ""},
		{"a module with other copies", "", strings.ReplaceAll(copies, "3", "4"), "vendor/modules.txt: lists "},
		{"a module without the list", "", "", "vendor: copies of modules, without a modules.txt"},
		{"a workspace", "lantern/", "## workspace\n" + copies, ""},
		{"a workspace with other copies", "lantern/", "## workspace\n" + strings.ReplaceAll(copies, "3", "4"), "vendor/modules.txt: lists "},
		{"a workspace without the list", "lantern/", "", "vendor: copies of modules, without a modules.txt"},
	} {
		fsys := fstest.MapFS{
			row.at + "go.mod":              {Data: []byte(asks)},
			"vendor/example.org/wick/w.go": {Data: []byte("package wick\n")},
		}
		if row.at != "" {
			fsys["go.work"] = &fstest.MapFile{Data: []byte("go 1.24\n\nuse ./lantern\n")}
		}
		if row.list != "" {
			fsys["vendor/modules.txt"] = &fstest.MapFile{Data: []byte(row.list)}
		}
		made, err := sbom.Directory(input(), "source", fsys, nil)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(made.Incomplete, "\n")
		if !strings.Contains(said, row.want) || (row.want == "") != (said == "") {
			t.Errorf("%s: got %q, want %q", row.name, said, row.want)
		}
	}
}
