//go:build !unix

package download

import (
	"io/fs"
	"os"
)

// tryLock locks nothing where the system has no such locks: two downloads into
// one directory are then not kept apart.
func tryLock(*os.File) (bool, error) { return true, nil }

// ours is not asked where files have no owner in the sense of Unix.
func ours(fs.FileInfo) bool { return true }

// links is not asked where files do not say how many names they have.
func links(fs.FileInfo) uint64 { return 1 }
