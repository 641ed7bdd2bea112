package names_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/test/bench/names"
)

// What is measured is a census that finds nothing wrong, and that would: of a
// manifest with a name too many it does not say that all is well.
func TestCensus(t *testing.T) {
	for _, n := range []int{1, manifest.PageEntries, 2*manifest.PageEntries + 1} {
		dir := t.TempDir()
		if err := names.Make(dir, n); err != nil {
			t.Fatal(err)
		}
		if err := names.Census(io.Discard, dir, n); err != nil {
			t.Errorf("%d names: %v", n, err)
		}
		if names.Census(io.Discard, dir, n+1) == nil {
			t.Errorf("%d names: one more is not noticed", n)
		}
		pages, err := filepath.Glob(filepath.Join(dir, "release.manifest.pages", "*"))
		if want := n > manifest.PageEntries; err != nil || len(pages) > 0 != want {
			t.Errorf("%d names: %d pages", n, len(pages))
		}
		for _, page := range pages[:min(1, len(pages))] {
			if err := os.WriteFile(page, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			if names.Census(io.Discard, dir, n) == nil {
				t.Errorf("%d names: a changed page is not noticed", n)
			}
		}
	}
}

// BenchmarkCensus reads and compares a hundred pages, for profiles.
func BenchmarkCensus(b *testing.B) {
	const n = 100 * manifest.PageEntries
	dir := b.TempDir()
	if err := names.Make(dir, n); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := names.Census(io.Discard, dir, n); err != nil {
			b.Fatal(err)
		}
	}
}
