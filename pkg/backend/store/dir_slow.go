//go:build !linux

package store

import (
	"io/fs"
	"os"
)

// quick always fails on systems without such a system call.
func quick(path, name string) (*os.File, fs.FileInfo, bool) { return nil, nil, false }

// sizeIn always fails on systems without such a system call.
func sizeIn(*os.File, string) (int64, bool) { return 0, false }

// unnamed always fails on systems without such files.
func unnamed(*os.File) (*os.File, func(string) error) { return nil, nil }
