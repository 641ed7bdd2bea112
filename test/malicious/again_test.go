package malicious

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLongAgain: nothing that a step leaves stops a later run in the same directory:
// it comes to the same, and leaves no scratch space either.
func TestLongAgain(t *testing.T) {
	w := openWorld(t)
	mode := w.walls(t)
	for _, r := range rows() {
		if !slices.Contains([]string{
			"nothing", "bury-home", "bury-out", "leave-locked", "leave-fifo", "leave-socket", "leave-symlink", "leave-hardlink", "leave-escape",
			"fill-disk", "hide-on-disk", "fork-bomb", "outlive", "fail",
		}, r.act) {
			continue
		}
		t.Run(r.act, func(t *testing.T) {
			r := r.fit(w.report)
			b := w.prepare(t, mode, r)
			for run := range 2 {
				err := w.build(t, b)
				if codeOf(err) != r.code {
					t.Fatalf("run %d: %s %v, want %s", run+1, codeOf(err), err, r.code)
				}
				if left, err := os.ReadDir(filepath.Join(b.state, "work")); err != nil || len(left) > 0 {
					t.Errorf("run %d left %v, %v", run+1, left, err)
				}
			}
		})
	}
}
