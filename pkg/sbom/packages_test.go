package sbom_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
)

// TestPackages: the packages of a directory are the same whether its files are
// hashed or not, and a document without files says so.
func TestPackages(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		"bin/program": raw, "src/go.mod": []byte("module example.test/lamp\n\ngo 1.26\n\nrequire example.test/oil v1.0.0\n"),
		"src/go.sum": []byte("example.test/oil v1.0.0 h1:oil=\nexample.test/oil v1.0.0/go.mod h1:mod=\n"), "README": []byte("text"),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := sbom.Input{Name: "dir", Version: "v1", Created: time.Unix(1714557600, 0), Namespace: "https://example.test/"}
	quick, err := sbom.Packages(in, "dir", os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := sbom.Directory(in, "dir", os.DirFS(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	purls := func(d spdx.Draft) map[string]bool {
		all := map[string]bool{}
		for _, p := range d.Packages {
			if p.PURL != "" {
				all[p.PURL] = true
			}
		}
		return all
	}
	got, want := purls(quick.Draft), purls(whole.Draft)
	for purl := range want {
		if !got[purl] {
			t.Errorf("%s is missing", purl)
		}
	}
	if len(got) != len(want) || !got["pkg:golang/example.test/oil@v1.0.0"] {
		t.Errorf("%d packages, want %d", len(got), len(want))
	}
	if len(quick.Draft.Files) != 0 || len(quick.Incomplete) == 0 || !strings.Contains(quick.Incomplete[len(quick.Incomplete)-1], "only packages") {
		t.Errorf("%d files, %q", len(quick.Draft.Files), quick.Incomplete)
	}
	text, err := quick.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, report := spdx.Validate(string(text)); len(report.Faults) > 0 {
		t.Errorf("%v", report.Faults)
	}
	if _, err := sbom.Packages(in, "dir", os.DirFS(t.TempDir())); err == nil {
		t.Error("nothing was described")
	}
}
