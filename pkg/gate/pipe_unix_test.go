//go:build unix

package gate

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestPipesAreNotOpened: whoever opens a pipe waits for somebody to write to
// it, and nobody could end that.
func TestPipesAreNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := (File{Path: path}).hash(t.Context())
	var refused *verdict.Error
	if !errors.As(err, &refused) || refused.Finding.Code != verdict.FileType {
		t.Errorf("hashing a pipe: %v, want %s", err, verdict.FileType)
	}
}
