//go:build !unix

package store

import "os"

// openNoWait is nothing where opening a file cannot wait.
const openNoWait = 0

// flush does nothing where a directory cannot be synced: there the file system
// orders its own entries.
func flush(*os.File) error { return nil }
