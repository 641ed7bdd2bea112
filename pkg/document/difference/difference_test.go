package difference_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/difference"
)

// TestPlaces changes one fact of a file at a time, and expects its place.
func TestPlaces(t *testing.T) {
	for _, row := range []struct{ what, want, got, where string }{
		{"a byte of a text", "one text", "one teXt", "a: from byte 6"},
		{"the end of a text", "one text", "one", "a: from byte 3"},
		{"a file in an archive", packed("x", 0o644, 1), packed("y", 0o644, 1), "a: entry f: from byte 0"},
		{"the mode of a file", packed("x", 0o644, 1), packed("x", 0o755, 1), "a: entry f, mode"},
		{"the time of a file", packed("x", 0o644, 1), packed("x", 0o644, 2), "a: entry f, mtime"},
		{"the time in a header", zipped("x", 1, 6), zipped("x", 2, 6), "a: gzip header"},
		{"how it is compressed", zipped(strings.Repeat("abc", 99), 1, 1), zipped(strings.Repeat("abc", 99), 1, 9), "a: from byte"},
		{"a file in a compressed archive", zipped(packed("x", 0o644, 1), 1, 6), zipped(packed("x", 0o600, 1), 1, 6), "a: entry f, mode"},
		{"a file in a zip", inZip("f", "x"), inZip("f", "y"), "a: entry f: from byte 0"},
		{"a name in a zip", inZip("f", "x"), inZip("g", "x"), "a: entry f"},
		{"an entry of a zip that is packed otherwise", inZip("f", strings.Repeat("abc", 99)), stored("f", strings.Repeat("abc", 99)), "a: entry f, other attributes"},
		{"a program of a zip, by what is in it", inZip("f", packed("x", 0o644, 1)), inZip("f", packed("x", 0o755, 1)), "a: entry f: entry f, mode"},
		{"the second entry of an archive", packed("x", 0o644, 1, "y"), packed("x", 0o644, 1, "z"), "a: entry 1: from byte 0"},
		{"a byte after the first piece", large + "x", large + "y", fmt.Sprintf("a: from byte %d", len(large))},
		{"the last byte of the first piece", large[1:] + "x", large[1:] + "y", fmt.Sprintf("a: from byte %d", len(large)-1)},
		{"a longer file", large, large + "x", fmt.Sprintf("a: from byte %d", len(large))},
		{"an order", inZip("f", "x", "g", "y"), inZip("g", "y", "f", "x"), "a: order of entries"},
	} {
		t.Run(row.what, func(t *testing.T) {
			if all := places(row.want, row.got); len(all) == 0 || !strings.Contains(all[0], row.where) {
				t.Errorf("%v: want first %q", all, row.where)
			}
			if same := places(row.want, row.want); same != nil {
				t.Errorf("equal bytes differ: %v", same)
			}
		})
	}
}

// TestBytes: content without parts is shown from the first byte that differs.
func TestBytes(t *testing.T) {
	list, err := difference.Of("a", content("one text"), content("one teXt\x1b"))
	if want := []difference.Difference{{Where: "a: from byte 6", Want: `"xt", 8 bytes in all`, Got: `"Xt\x1b", 9 bytes in all`}}; err != nil || !slices.Equal(list, want) {
		t.Errorf("%v, %v, want %v", list, err, want)
	}
}

// TestSections builds a program for each platform, changes one constant or flag
// of it, and expects the section or the field.
func TestSections(t *testing.T) {
	dir := t.TempDir()
	build := func(goos, value string, flags ...string) string {
		t.Helper()
		save(t, filepath.Join(dir, "go.mod"), "module example.test/a\n\ngo 1.26\n")
		save(t, filepath.Join(dir, "main.go"), "package main\n\nimport \"os\"\n\nvar v = "+value+"\n\nfunc main() { os.Exit(v) }\n")
		cmd := exec.Command("go", append([]string{"build", "-buildvcs=false", "-trimpath", "-ldflags=-buildid=", "-o", "out"}, flags...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for goos, data := range map[string]string{"linux": "section .noptrdata", "darwin": "section __DATA,__noptrdata", "windows": "section .data"} {
		t.Run(goos, func(t *testing.T) {
			one := build(goos, "1")
			where := places(one, build(goos, "2"))
			if !slices.ContainsFunc(where, func(w string) bool { return strings.HasPrefix(w, "a: "+data+": from byte ") }) || slices.ContainsFunc(where, func(w string) bool { return strings.Contains(w, "text") }) {
				t.Errorf("another constant: %q, want %q, and no code", where, data)
			}
			if where := places(one, build(goos, "1", "-tags=other")); !slices.Contains(where, "a: buildinfo build -tags") {
				t.Errorf("another flag: %q", where)
			}
		})
	}
}

func places(want, got string) (where []string) {
	list, err := difference.Of("a", content(want), content(got))
	must(err)
	for _, d := range list {
		where = append(where, d.Where)
	}
	return where
}

func content(text string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
}

func save(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// large has the size of the pieces in which files are compared.
var large = strings.Repeat("x", 1<<17)

// packed is a tar with the file f, and with more files, named by their number.
func packed(text string, mode, sec int64, more ...string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, text := range append([]string{text}, more...) {
		name := []string{"f", "1"}[i]
		must(w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text)), ModTime: time.Unix(sec, 0)}))
		_, err := w.Write([]byte(text))
		must(err)
	}
	must(w.Close())
	return b.String()
}

func zipped(text string, sec int64, level int) string {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	must(err)
	w.ModTime = time.Unix(sec, 0)
	_, err = w.Write([]byte(text))
	must(err)
	must(w.Close())
	return b.String()
}

func stored(name, text string) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	must(err)
	_, err = f.Write([]byte(text))
	must(err)
	must(w.Close())
	return b.String()
}

func inZip(pairs ...string) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		f, err := w.Create(pairs[i])
		must(err)
		_, err = f.Write([]byte(pairs[i+1]))
		must(err)
	}
	must(w.Close())
	return b.String()
}
