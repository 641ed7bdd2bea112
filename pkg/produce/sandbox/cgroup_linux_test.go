//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestSweepLeavesGroupsOfOthers: a group is removed only once its launcher is
// gone. One whose step has just ended is read first, to say which limit was hit.
func TestSweepLeavesGroupsOfOthers(t *testing.T) {
	const gone = 1 << 30 // more than any process number
	parent := t.TempDir()
	for dir, stays := range map[string]bool{
		fmt.Sprintf("waybill-%d-%d", os.Getpid(), gone): true,
		fmt.Sprintf("waybill-%d-%d", gone, os.Getpid()): false,
	} {
		path := filepath.Join(parent, dir)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		sweep(parent)
		if _, err := os.Stat(path); os.IsNotExist(err) == stays {
			t.Errorf("%s: %v, want it to stay: %t", dir, err, stays)
		}
	}
}
