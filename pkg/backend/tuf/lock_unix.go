//go:build unix

package tuf

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the file for this process until it is closed, unless another
// has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
