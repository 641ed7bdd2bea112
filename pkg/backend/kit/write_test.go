package kit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestWrite: both forms of a kit hold the same files, and are the same bytes each
// time. No file is overwritten.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	large := bytes.Repeat([]byte("some bytes that fit no frame "), 700_000)
	for name, raw := range map[string][]byte{"a": large, "b": nil, "c": []byte("c")} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for _, compressed := range []bool{false, true} {
		var first []byte
		for _, name := range []string{"x.kit", "y.kit"} {
			path := filepath.Join(to, name)
			_ = os.Remove(path)
			if err := kit.Write(t.Context(), path, from, compressed); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(path)
			if err != nil || first != nil && !bytes.Equal(raw, first) {
				t.Errorf("compressed %t: two kits of the same files differ: %v", compressed, err)
			}
			first = raw
			in, err := store.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := store.Read(t.Context(), in, "a", int64(len(large))); err != nil || !bytes.Equal(got, large) {
				t.Errorf("compressed %t: %d bytes, %v", compressed, len(got), err)
			}
			if compressed && len(raw) > len(large)/10 {
				t.Errorf("%d bytes are not compressed", len(raw))
			}
		}
	}
	if err := kit.Write(t.Context(), filepath.Join(to, "x.kit"), from, true); verdict.FindingOf("", err).Code != verdict.Usage {
		t.Errorf("a kit was overwritten: %v", err)
	}
}
