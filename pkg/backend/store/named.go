package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// OpenNamed opens a file that was named on the command line. A pipe that somebody
// writes to is one, but opening it may wait for ever, and a directory is none.
func OpenNamed(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, verdict.Refuse(verdict.Usage, path, "there is no such file")
	case err != nil:
		return nil, unread(path, err)
	case info.IsDir():
		return nil, verdict.Refuse(verdict.FileType, path, "it is a directory; name a file")
	case info.Mode()&fs.ModeNamedPipe != 0 && !inherited(path):
		return nil, verdict.Refuse(verdict.FileType, path, "it is a named pipe")
	case info.Mode()&(fs.ModeDevice|fs.ModeSocket) != 0 && !inherited(path) && path != os.DevNull:
		return nil, verdict.Refuse(verdict.FileType, path, "it is a device or a socket; name a file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, unread(path, err)
	}
	return file, nil
}

// unread tells a file that one may not read from a disk that fails.
func unread(path string, err error) error {
	f := verdict.Find(verdict.PlaceDown, path, "%v", err)
	if errors.Is(err, fs.ErrPermission) {
		f.Fix = "give whoever runs this the right to read it; nothing was decided"
	}
	return &verdict.Error{Finding: f, Cause: err}
}

// inherited reports whether a path names a descriptor that is open already, as
// a shell's <(command) does: its other end is there.
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
