package source

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/sandbox"
	"github.com/waybill-release/waybill/pkg/vcs"
)

// BenchmarkCheckout writes a source of 20 000 files and 100 MB: as plain
// checkout does, and proven, in each mode.
func BenchmarkCheckout(b *testing.B) {
	const files, size = 20_000, 5 << 10
	dir := b.TempDir()
	git(b, dir, "init", "--quiet", "--initial-branch=main")
	random := rand.NewChaCha8([32]byte{})
	body := make([]byte, size)
	for i := range files {
		name := filepath.Join(dir, fmt.Sprintf("staging/group%02d/package%02d/file%04d.go", i%20, i/20%50, i))
		_, _ = random.Read(body) // never fails
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, body, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	git(b, dir, "add", ".")
	git(b, dir, "commit", "--quiet", "-m", "large")
	git(b, dir, "gc", "--quiet")
	repo, c := opened(b, dir)
	to := filepath.Join(b.TempDir(), "out")
	run := func(name string, checkout func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(files * size)
			for b.Loop() {
				if err := checkout(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.RemoveAll(to); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
	run("plain", func() error { return repo.Checkout(b.Context(), c, to) })
	for _, mode := range every {
		run(string(mode), func() error { return Checkout(b.Context(), mode, repo, c, to) })
	}
	if err := vcs.Checkout(b.Context(), c, to); err != nil {
		b.Fatal(err)
	}
	b.Run("proof", func(b *testing.B) {
		b.SetBytes(files * size)
		for b.Loop() {
			if err := vcs.CheckTree(b.Context(), to, c); err != nil {
				b.Fatal(err)
			}
		}
	})
	_ = sandbox.Remove(to) // it is in a directory of the test's
}
