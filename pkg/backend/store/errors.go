package store

import (
	"fmt"
	"io/fs"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The answers of a place that are not failures of the place.
var (
	// ErrNotFound: the place answered that it has no such object.
	ErrNotFound error = sentinel{code: "MISSING", text: "no such object"}
	// ErrNotListable: the place cannot say what it holds.
	ErrNotListable error = sentinel{code: "NOT_LISTABLE", text: "the place cannot be listed"}
	// ErrExists: an object is there that was to be absent.
	ErrExists error = sentinel{code: "FILE_CONFLICT", text: "the object exists already"}
	// ErrChanged: the object is not the one that was to be replaced.
	ErrChanged error = sentinel{code: "FILE_CONFLICT", text: "the object is another one by now"}
	// ErrPrivate: the place does not answer everybody, and was asked without
	// credentials. It comes inside an [UnavailableError].
	ErrPrivate error = sentinel{code: "UNAVAILABLE", text: "it does not answer everybody, and no credentials were sent"}
)

// sentinel is an error of which only the identity matters.
type sentinel struct{ code, text string }

func (s sentinel) Error() string { return s.text }

// Code is the reason code of the refusal that the error amounts to.
func (s sentinel) Code() string { return s.code }

// UnavailableError reports that a place gave no answer: nothing is known about
// what it holds.
type UnavailableError = verdict.UnavailableError

// UsageError reports words that name no place; asking again will not help.
type UsageError = verdict.UsageError

func usage(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }

// NameError reports a name outside the grammar of [CheckName].
type NameError struct {
	Name   string // the refused name, untouched; print it quoted only
	Reason string
}

// Error quotes at most the first 200 bytes of the name.
func (e *NameError) Error() string {
	return fmt.Sprintf("checking name %s: %s", quote(e.Name), e.Reason)
}

// Code is the reason code of the refusal.
func (e *NameError) Code() string { return "PATH" }

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

// LimitError reports a place with more objects than are read.
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
