package run

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/unpack"
)

// pack packs two files at a time.
func pack(t *testing.T, zipped bool, at time.Time) []byte {
	t.Helper()
	var b bytes.Buffer
	f, err := newFormat(&b, zipped, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []struct {
		name string
		mode int64
		body string
	}{{"tool/README.md", 0o644, "read me\n"}, {"tool/tool.exe", 0o755, "a program\n"}} {
		if err := f.entry(file.name, file.mode, int64(len(file.body))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, file.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestArchivesAreTheSame: equal inputs give equal bytes in either format and in
// every time zone, and the strict reader finds the entries.
func TestArchivesAreTheSame(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 999, time.UTC)
	for name, zipped := range map[string]bool{"tar.gz": false, "zip": true} {
		first := pack(t, zipped, at)
		if again := pack(t, zipped, at.In(time.FixedZone("east", 7*3600)).Truncate(time.Second)); !bytes.Equal(first, again) {
			t.Errorf("%s: two archives of the same files differ", name)
		}
		if other := pack(t, zipped, at.Add(2*time.Second)); bytes.Equal(first, other) {
			t.Errorf("%s: the time is not in the archive", name)
		}
		found := map[string]string{}
		err := unpack.New().Archive(bytes.NewReader(first), int64(len(first)), func(e unpack.Entry, body io.Reader) error {
			raw, err := io.ReadAll(body)
			found[e.Name] = string(raw)
			return err
		})
		if err != nil || len(found) != 2 || found["tool/tool.exe"] != "a program\n" {
			t.Errorf("%s: %v, %v", name, err, found)
		}
	}
}

// TestZipHasModes: programs are executable, and nothing else is; unzip, where it
// is installed, agrees.
func TestZipHasModes(t *testing.T) {
	raw := pack(t, true, time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
	r, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []os.FileMode{0o644, 0o755} {
		if got := r.File[i].Mode(); got != want {
			t.Errorf("%s has mode %v, want %v", r.File[i].Name, got, want)
		}
	}
	if err := (&zipped{}).link("tool/link", "README.md"); err == nil {
		t.Error("a zip takes a link")
	}
	path := filepath.Join(t.TempDir(), "tool.zip")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if program, err := exec.LookPath("unzip"); err == nil {
		if out, err := exec.CommandContext(t.Context(), program, "-t", path).CombinedOutput(); err != nil {
			t.Errorf("unzip: %v: %s", err, out)
		}
	}
}
