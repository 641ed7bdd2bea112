package registry

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestMend: an image of which a file is cut off is forgotten, with the index that
// lists it, and can be pushed again; others stay.
func TestMend(t *testing.T) {
	for name, row := range map[string]struct {
		cut  func(d Descriptor, children []Descriptor) string // the file
		size int64
		gone bool
	}{
		"nothing is cut (twin)": {nil, 0, false},
		"the index of an image": {func(d Descriptor, _ []Descriptor) string { return d.Digest.Hex() }, 10, true},
		"a platform, empty":     {func(_ Descriptor, children []Descriptor) string { return children[0].Digest.Hex() }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := OpenLayout(dir)
			if err != nil {
				t.Fatal(err)
			}
			d, children := index(t, l, "v1")
			other := image(t, l, "other")
			if err := l.Tag(t.Context(), "demo", "other", other); err != nil {
				t.Fatal(err)
			}
			if row.cut != nil {
				if err := os.Truncate(filepath.Join(dir, "blobs", "sha256", row.cut(d, children)), row.size); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Mend(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Resolve(t.Context(), "demo", "v1"); errors.Is(err, ErrNotFound) != row.gone || (err != nil) != row.gone {
				t.Errorf("the image: %v", err)
			}
			if _, err := l.Resolve(t.Context(), "demo", "other"); err != nil {
				t.Errorf("another image: %v", err)
			}
			if again, _ := index(t, l, "v1"); again.Digest != d.Digest {
				t.Errorf("pushed again it is %v", again)
			}
			if got, err := l.Resolve(t.Context(), "demo", "v1"); err != nil || got.Digest != d.Digest {
				t.Errorf("pushed again: %v", err)
			}
			if _, err := Graph(t.Context(), l, "demo", d); err != nil {
				t.Errorf("pushed again: %v", err)
			}
		})
	}
}

// TestMendIndex: an index.json that ends too early is begun anew.
func TestMendIndex(t *testing.T) {
	for _, size := range []int64{0, 20} {
		dir := t.TempDir()
		l, err := OpenLayout(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Mend(t.Context()); err != nil {
			t.Errorf("a layout that is not there: %v", err)
		}
		d, _ := index(t, l, "v1")
		if err := os.Truncate(filepath.Join(dir, "index.json"), size); err != nil {
			t.Fatal(err)
		}
		if err := l.Mend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Resolve(t.Context(), "demo", "v1"); !errors.Is(err, ErrNotFound) {
			t.Errorf("after mending: %v", err)
		}
		if again, _ := index(t, l, "v1"); again.Digest != d.Digest {
			t.Errorf("pushed again it is %v", again)
		}
	}
}

// TestLayoutOfOtherBytes: a blob is written again if the file with its name has
// other bytes of the same size, and only then.
func TestLayoutOfOtherBytes(t *testing.T) {
	for name, row := range map[string]struct {
		held string
		read int
	}{"its own bytes (twin)": {"alpha", 0}, "other bytes": {"omega", 1}} {
		dir := t.TempDir()
		l, err := OpenLayout(dir)
		if err != nil {
			t.Fatal(err)
		}
		d := Descriptor{Digest: digest.Of(digest.SHA256, []byte("alpha")), Size: 5}
		read := 0
		push := func() error {
			return l.PushBlob(t.Context(), "demo", d, func() (io.ReadCloser, error) {
				read++
				return io.NopCloser(strings.NewReader("alpha")), nil
			})
		}
		path := filepath.Join(dir, "blobs", "sha256", d.Digest.Hex())
		if err := errors.Join(push(), os.WriteFile(path, []byte(row.held), 0o644)); err != nil {
			t.Fatal(err)
		}
		read = 0
		if err := push(); err != nil || read != row.read {
			t.Errorf("%s: read %d times, want %d, %v", name, read, row.read, err)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != "alpha" {
			t.Errorf("%s: the layout has %q, %v", name, raw, err)
		}
	}
}
