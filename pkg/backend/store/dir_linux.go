package store

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// quick opens a plain file inside a directory in one system call, if the kernel
// can refuse to follow a link in any part of a name; opening part by part takes
// a call for each. If it fails for any reason, the caller opens part by part
// and reports the reason.
func quick(path, name string) (*os.File, fs.FileInfo, bool) {
	dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, false
	}
	defer func() { _ = unix.Close(dir) }()
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | openNoWait,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := unix.Openat2(dir, name, &how)
	if err != nil {
		return nil, nil, false
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, nil, false
	}
	return f, info, true
}

// sizeIn is the size of a plain file in an open directory.
func sizeIn(dir *os.File, name string) (int64, bool) {
	var stat unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return stat.Size, err == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG
}

// unnamed creates a file without a name, which vanishes with its writer, in an
// open directory, and returns the function that gives it one there, unless the
// name exists. It returns nil where the kernel or the file system has no such
// files, or there is no /proc to name them by.
func unnamed(in *os.File) (*os.File, func(name string) error) {
	fd, err := unix.Openat(int(in.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, nil // the caller creates one with a name, and reports why that fails, too
	}
	f, here := os.NewFile(uintptr(fd), in.Name()), fmt.Sprintf("/proc/self/fd/%d", fd)
	if unix.Access(here, unix.F_OK) != nil {
		_ = f.Close()
		return nil, nil
	}
	return f, func(name string) error {
		return os.NewSyscallError("linkat", unix.Linkat(unix.AT_FDCWD, here, int(in.Fd()), name, unix.AT_SYMLINK_FOLLOW))
	}
}
