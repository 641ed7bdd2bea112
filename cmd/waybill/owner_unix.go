//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// sameOwner reports whether two files belong to one account.
func sameOwner(a, b fs.FileInfo) bool {
	one, is := a.Sys().(*syscall.Stat_t)
	other, too := b.Sys().(*syscall.Stat_t)
	return is && too && one.Uid == other.Uid
}
