//go:build unix

package download

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether this account owns a file.
func ours(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(s.Uid) == int64(os.Geteuid())
}

// links is how many names a file has.
func links(info fs.FileInfo) uint64 {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(s.Nlink) //nolint:unconvert // its type differs between systems
}
