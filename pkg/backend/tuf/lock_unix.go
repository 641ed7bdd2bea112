//go:build unix

package tuf

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks the file for this process until it is closed, unless another
// process holds the lock.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
