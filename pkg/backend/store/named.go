package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// OpenNamed opens a file that was named on the command line. Shell pipes such
// as <(command) are allowed. Named pipes are refused, because opening one may
// block for ever, and so are directories.
func OpenNamed(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, verdict.Refuse(verdict.Usage, path, "no such file")
	case err != nil:
		return nil, unreadable(path, err)
	case info.IsDir():
		return nil, verdict.Refuse(verdict.FileType, path, "want a file, got a directory")
	case info.Mode()&fs.ModeNamedPipe != 0 && !inherited(path):
		return nil, verdict.Refuse(verdict.FileType, path, "want a file, got a named pipe")
	case info.Mode()&(fs.ModeDevice|fs.ModeSocket) != 0 && !inherited(path) && path != os.DevNull:
		return nil, verdict.Refuse(verdict.FileType, path, "want a file, got a device or a socket")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return file, nil
}

// unread tells a missing permission from a failing disk.
func unreadable(path string, err error) error {
	f := verdict.Find(verdict.PlaceDown, path, "%v", err)
	if errors.Is(err, fs.ErrPermission) {
		f.Fix = "give the current user permission to read the file; no verdict was reached"
	}
	return &verdict.Error{Finding: f, Cause: err}
}

// inherited reports whether a path names a file descriptor that is already
// open, such as a shell's <(command): its writer exists.
func inherited(path string) bool {
	return strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/") || path == "/dev/stdin"
}

// ReadNamed reads a file that was named on the command line, bounded.
func ReadNamed(path string, limit int64) ([]byte, error) {
	file, err := OpenNamed(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, verdict.Wrap(verdict.PlaceDown, path, err)
	case int64(len(raw)) > limit:
		return nil, verdict.Refuse(verdict.Limit, path, "more than %d bytes", limit)
	}
	return raw, nil
}
