//go:build unix

package bench

import (
	"os"
	"runtime"
	"syscall"
)

// peak is the most memory that a process had at once, in bytes.
func peak(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return usage.Maxrss
	}
	return usage.Maxrss << 10
}
