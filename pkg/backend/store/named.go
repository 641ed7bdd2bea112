package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/transport"
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

// elsewhere is a place whose names come from another place.
type elsewhere struct {
	Place
	names Place
}

// Listed reads a place at one address and lists it at another: for files behind
// a web server or a cache, which cannot be listed, and the bucket that they
// come from. The list is as trustworthy as the second address; objects that
// exist only at the first are not seen.
func Listed(at, names Place) Place { return elsewhere{Place: at, names: names} }

// List implements [Place].
func (e elsewhere) List(ctx context.Context) ([]Object, error) { return e.names.List(ctx) }

// CheckTag asks each of the two places that belongs to a tag.
func (e elsewhere) CheckTag(ctx context.Context, commit string) error {
	for _, place := range []Place{e.Place, e.names} {
		if tagged, is := place.(*releasePlace); is {
			if err := tagged.CheckTag(ctx, commit); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxHint bounds the memory allocated for an object's declared size.
const maxHint = 4 << 20

// Read reads a whole object of at most limit bytes. A larger one is refused
// with code LIMIT before more of it is in memory.
func Read(ctx context.Context, from Place, name string, limit int64) ([]byte, error) {
	body, size, err := from.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	// The size only avoids growing the buffer; a wrong one does no harm.
	buf := bytes.NewBuffer(make([]byte, 0, min(max(size, 0), maxHint)+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(body, limit+1)); err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	if int64(buf.Len()) > limit {
		return nil, verdict.Refuse(verdict.Limit, name, "more than %d bytes", limit)
	}
	return buf.Bytes(), nil
}

// reporting returns a body whose failures are unavailability. A file of this
// machine can be read at any offset.
func reporting(body io.ReadCloser, place, op string) io.ReadCloser {
	stream := transport.Reporting(body, func(err error) error { return &verdict.UnavailableError{Place: place, Op: op, Err: err} })
	if file, is := body.(*os.File); is {
		return struct {
			io.ReadCloser
			io.ReaderAt
		}{stream, file}
	}
	return stream
}
