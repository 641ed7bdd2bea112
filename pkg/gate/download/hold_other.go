//go:build !unix

package download

import "io/fs"

// ours is always true: the system's files have no owner in the sense of Unix.
func ours(fs.FileInfo) bool { return true }

// links is always 1: the system does not say how many names a file has.
func links(fs.FileInfo) uint64 { return 1 }
