//go:build !unix

package store

import "os"

// openNoWait is zero on systems where opening a file cannot block.
const openNoWait = 0

// flush does nothing on systems that cannot sync a directory: there the file
// system orders its own entries.
func flush(*os.File) error { return nil }

// lock does nothing on systems that cannot lock a directory.
func (d *dir) lock() (func(), error) { return func() {}, nil }
