//go:build unix

// Package filelock locks files between processes, where the system has advisory
// locks.
//
// Other projects should not import this package: it changes without notice.
package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Try locks the file for this process until it is closed, unless another process
// holds the lock.
func Try(f *os.File) (free bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
