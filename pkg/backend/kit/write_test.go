package kit_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

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
	if _, _, err := kit.Temp(filepath.Join(to, "x.kit")); verdict.FindingOf("", err).Code != verdict.Usage {
		t.Errorf("a kit was overwritten: %v", err)
	}
}

// TestTemp: what a killed run left beside kits is removed when it is a day old; what a
// run that lives may have is not, and nothing else is.
func TestTemp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "no[t]apattern")
	for name, age := range map[string]time.Duration{".waybill-kit-old": 25 * time.Hour, ".waybill-kit-new": time.Hour, "old": 25 * time.Hour} {
		at := time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, name, "parts"), 0o755), os.Chtimes(filepath.Join(dir, name), at, at)); err != nil {
			t.Fatal(err)
		}
	}
	temp, remove, err := kit.Temp(filepath.Join(dir, "x.kit"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(temp); err != nil || !info.IsDir() {
		t.Error(err)
	}
	remove()
	left, err := fs.Glob(os.DirFS(dir), "*")
	if want := []string{".waybill-kit-new", "old"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q is left: %v", left, err)
	}
}
