//go:build unix

package checkout

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
)

// BenchmarkCheckout writes a source of 20 000 files and 100 MB: as plain
// checkout does, and proven, in each mode.
func BenchmarkCheckout(b *testing.B) {
	const files, size = 20_000, 5 << 10
	dir := b.TempDir()
	runGit(b, dir, "init", "--quiet", "--initial-branch=main")
	runGit(b, dir, "config", "gc.auto", "0")
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
	runGit(b, dir, "add", ".")
	runGit(b, dir, "commit", "--quiet", "-m", "large")
	runGit(b, dir, "repack", "-a", "-d", "--quiet")
	repo, c := opened(b, dir)
	to := filepath.Join(b.TempDir(), "out")
	run := func(name string, checkout func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(files * size)
			var used time.Duration
			for b.Loop() {
				before := processor(b)
				if err := checkout(); err != nil {
					b.Fatal(err)
				}
				used += processor(b) - before
				b.StopTimer()
				if err := os.RemoveAll(to); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/op")
		})
	}
	run("plain", func() error { return repo.Checkout(b.Context(), c, to) })
	for _, mode := range every {
		run(string(mode), func() error { return Checkout(b.Context(), mode, repo, c, to) })
	}
	if err := repo.Checkout(b.Context(), c, to); err != nil {
		b.Fatal(err)
	}
	b.Run("proof", func(b *testing.B) {
		b.SetBytes(files * size)
		before := processor(b)
		defer func() { b.ReportMetric((processor(b)-before).Seconds()/float64(b.N), "cpu-s/op") }()
		for b.Loop() {
			if err := git.CheckTree(b.Context(), to, c); err != nil {
				b.Fatal(err)
			}
		}
	})
	_ = sandbox.Remove(b.Context(), to) // it is in a directory of the test's
}

// processor is the time that this process and its children have had, which
// others on the machine change less than the time that passes.
func processor(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
