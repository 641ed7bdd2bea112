//go:build unix

package registry

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLayoutsThatLeadElsewhere: of a layout only regular files below its own
// directory are read, whatever else the names in it lead to.
func TestLayoutsThatLeadElsewhere(t *testing.T) {
	moved := func(t *testing.T, path string) string {
		t.Helper()
		to := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.Rename(path, to); err != nil {
			t.Fatal(err)
		}
		return to
	}
	link := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Symlink(moved(t, path), path); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		name  string
		spoil func(t *testing.T, dir, blob string)
		want  string
	}{
		{"as it was (twin)", func(*testing.T, string, string) {}, ""},
		{"a blob behind a link", func(t *testing.T, _, blob string) { link(t, blob) }, "FILE_TYPE"},
		{"all blobs behind a link", func(t *testing.T, dir, _ string) { link(t, filepath.Join(dir, "blobs")) }, "FILE_TYPE"},
		{"the index behind a link", func(t *testing.T, dir, _ string) { link(t, filepath.Join(dir, "index.json")) }, "FILE_TYPE"},
		{"a pipe in place of a blob", func(t *testing.T, _, blob string) {
			moved(t, blob)
			if err := syscall.Mkfifo(blob, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "FILE_TYPE"},
		{"a directory in place of a blob", func(t *testing.T, _, blob string) {
			moved(t, blob)
			if err := os.Mkdir(blob, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "FILE_TYPE"},
		{"a digest that is a path", func(t *testing.T, dir, blob string) {
			path := filepath.Join(dir, "index.json")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			raw = []byte(strings.ReplaceAll(string(raw), filepath.Base(blob), "../../../../etc/passwd"))
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "UNAVAILABLE"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "layout")
			layout, err := OpenLayout(dir)
			if err != nil {
				t.Fatal(err)
			}
			d, _ := index(t, layout, "v1")
			row.spoil(t, dir, filepath.Join(dir, filepath.FromSlash(blobName(d.Digest))))
			again, err := OpenLayout(dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := again.Resolve(t.Context(), "demo", "v1")
			if err == nil {
				var graph *Node
				if graph, err = Graph(t.Context(), again, "demo", got); err == nil {
					_, err = VerifyBlobs(t.Context(), again, "demo", graph)
				}
			}
			if code(err) != row.want {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}
