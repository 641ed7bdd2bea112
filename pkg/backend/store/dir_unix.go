//go:build unix

package store

import (
	"os"
	"syscall"
)

// openNoWait keeps the opening of a named pipe, swapped in at the last moment,
// from waiting for a writer. It changes nothing for a regular file.
const openNoWait = syscall.O_NONBLOCK

// flush makes the entries of an open directory durable.
func flush(f *os.File) error { return f.Sync() }

// lock waits for the directory itself, in which no file needs to be made, and
// returns what lets go of it.
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
