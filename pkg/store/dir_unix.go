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
