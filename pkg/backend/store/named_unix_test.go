//go:build unix

package store

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestFilesThatAreNone: what is no file is refused before it is opened; opening
// a pipe would wait for its writer.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]verdict.Code{pipe: verdict.FileType, dir: verdict.FileType, filepath.Join(dir, "none"): verdict.Usage, file: ""} {
		raw, err := ReadNamed(path, 10)
		var refused *verdict.Error
		switch {
		case want == "" && (err != nil || string(raw) != "x"):
			t.Errorf("%s: %q, %v", path, raw, err)
		case want != "" && (!errors.As(err, &refused) || refused.Finding.Code != want):
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
