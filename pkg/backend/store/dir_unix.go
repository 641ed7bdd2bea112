//go:build unix

package store

import (
	"os"
	"syscall"
)

// openNoWait keeps an open from blocking on a named pipe that was swapped in at
// the last moment. It changes nothing for a regular file.
const openNoWait = syscall.O_NONBLOCK

// flush makes the entries of an open directory durable.
func flush(f *os.File) error { return f.Sync() }

// lock waits for a lock on the directory itself, which needs no lock file, and
// returns the function that unlocks it.
func (d *dir) lock() (func(), error) {
	f, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
