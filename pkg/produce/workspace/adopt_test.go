package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// TestAdoptedFiles: whatever time and mode a step gave to a file, the adopted
// one has those of every other.
func TestAdoptedFiles(t *testing.T) {
	v, err := version.Parse("v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := Create(t.TempDir(), Identity{Name: "lantern", Version: v, Plan: digest.Of(digest.SHA256, nil)})
	if err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(t.TempDir(), "out")
	for name, when := range map[string]time.Time{"a": time.Date(1901, 12, 13, 0, 0, 0, 0, time.UTC), "b": time.Now()} {
		if err := os.WriteFile(from, []byte(name), 0o4711); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(from, when, when); err != nil {
			t.Fatal(err)
		}
		if err := w.Adopt(name, from); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(w.Dir(), "files", name))
		if err != nil || !info.ModTime().Equal(fixedTime()) || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v, %v", name, info.ModTime(), info.Mode(), err)
		}
	}
}
