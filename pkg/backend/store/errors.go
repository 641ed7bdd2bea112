package store

import (
	"fmt"
	"io/fs"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Answers of a place, as opposed to failures to answer.
var (
	// ErrNotFound: the place has no such object.
	ErrNotFound error = sentinel{code: "MISSING", text: "no such object"}
	// ErrNotListable: the place cannot list its objects.
	ErrNotListable error = sentinel{code: "NOT_LISTABLE", text: "the place cannot be listed"}
	// ErrExists: an object exists that had to be absent.
	ErrExists error = sentinel{code: "FILE_CONFLICT", text: "the object already exists"}
	// ErrChanged: the object is not the one to replace.
	ErrChanged error = sentinel{code: "FILE_CONFLICT", text: "the object has changed since it was read"}
	// ErrPrivate: the place denied an anonymous request. It comes inside an
	// [*verdict.UnavailableError].
	ErrPrivate error = sentinel{code: "UNAVAILABLE", text: "anonymous access was denied, and no credentials were sent"}
)

// sentinel is an error that is compared by identity only.
type sentinel struct{ code, text string }

func (s sentinel) Error() string { return s.text }

// Code is the reason code of this error.
func (s sentinel) Code() string { return s.code }

func usage(format string, args ...any) error {
	return &verdict.UsageError{Err: fmt.Errorf(format, args...)}
}

// nameError reports a name outside the grammar of [CheckName].
type nameError struct {
	Name   string // the refused name, unescaped; print it quoted only
	Reason string
}

// Error quotes at most the first 200 bytes of the name.
func (e *nameError) Error() string {
	return fmt.Sprintf("checking name %s: %s", quote(e.Name), e.Reason)
}

// Code is the reason code of the refusal.
func (e *nameError) Code() string { return "PATH" }

// FileTypeError reports something in a directory that is not a plain file.
type FileTypeError struct {
	Place string
	Name  string
	Mode  fs.FileMode
}

// Error names the object and what it is.
func (e *FileTypeError) Error() string {
	return fmt.Sprintf("reading %s at %q: it is %s, not a regular file", quote(e.Name), e.Place, kind(e.Mode))
}

// Code is the reason code of the refusal.
func (e *FileTypeError) Code() string { return "FILE_TYPE" }

// LimitError reports a place with more objects than the limit.
type LimitError struct {
	Place string
	Limit int
}

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("listing %q: more than %d objects", e.Place, e.Limit)
}

// Code is the reason code of the refusal.
func (e *LimitError) Code() string { return "LIMIT" }

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
