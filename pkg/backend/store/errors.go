package store

import (
	"fmt"
	"io/fs"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Answers of a place, as opposed to failures to answer.
var (
	// ErrNotFound: the place has no such object.
	ErrNotFound error = verdict.Coded("MISSING", "no such object")
	// ErrNotListable: the place cannot list its objects.
	ErrNotListable error = verdict.Coded("NOT_LISTABLE", "the place cannot be listed")
	// ErrExists: an object exists that had to be absent.
	ErrExists error = verdict.Coded("FILE_CONFLICT", "the object already exists")
	// ErrChanged: the object is not the one to replace.
	ErrChanged error = verdict.Coded("FILE_CONFLICT", "the object has changed since it was read")
	// ErrPrivate: the place denied an anonymous request. It comes inside an
	// [*verdict.UnavailableError].
	ErrPrivate error = verdict.Coded("UNAVAILABLE", "anonymous access was denied, and no credentials were sent")
)

func usage(format string, args ...any) error {
	return &verdict.UsageError{Err: fmt.Errorf(format, args...)}
}

// nameError reports a name outside the grammar of [CheckName].
func nameError(name, reason string) error {
	return verdict.Coded(verdict.Path, "checking name %s: %s", quote(name), reason)
}

// NotAFile reports something in a directory that is not a plain file.
func NotAFile(place, name string, mode fs.FileMode) error {
	return verdict.Coded(verdict.FileType, "reading %s at %q: it is %s, not a regular file", quote(name), place, kind(mode))
}

// TooMany reports a place with more objects than the limit.
func TooMany(place string) error {
	return verdict.Coded(verdict.Limit, "listing %q: more than %d objects", place, MaxObjects)
}

func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m.IsDir():
		return "a directory"
	}
	return "irregular"
}

// quote makes foreign text safe to show.
func quote(s string) string {
	const limit = 200
	if len(s) > limit {
		return fmt.Sprintf("%q…", s[:limit])
	}
	return fmt.Sprintf("%q", s)
}
