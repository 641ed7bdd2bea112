//go:build unix

package download

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// tryLock locks the file for this process, unless another process has locked
// it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

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
