//go:build !unix

package store

import "os"

// openNoWait is nothing where opening a file cannot wait.
const openNoWait = 0

// flush does nothing where a directory cannot be synced: there the file system
// orders its own entries.
func flush(*os.File) error { return nil }

// lock locks nothing where a directory cannot be locked.
func (d *dir) lock() (func(), error) { return func() {}, nil }
