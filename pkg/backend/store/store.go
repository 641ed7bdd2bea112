// Package store reads and writes places: directories, buckets, web servers and
// archives that hold the files of a release.
//
// A [Place] is a flat set of named objects under one URI. [Open] understands
//
//	/dir, file:///dir                       a directory
//	https://host/path/                      read only, cannot be listed
//	/dir/release.tar, tar:///release.tar    a tar archive, read only
//	/dir/release.kit/files/                 the files in a kit (see package kit)
//	gs://bucket/prefix/                     a public bucket of Google Cloud Storage
//	gs+http://127.0.0.1:4443/bucket/prefix/ the same on an emulator
//	s3://bucket/prefix/                     a public bucket of Amazon S3
//	s3+https://host/bucket/prefix/          a region of it, or another such service
//	github://OWNER/REPO/TAG/                a release on GitHub
//	github+https://host/OWNER/REPO/TAG/     the same on a host of GitHub Enterprise
//	github+http://127.0.0.1:PORT/O/R/TAG/   the same on an emulator
//	github+file:///dir/                     a downloaded release, with its listing
//
// [Listed] reads a place at one address and lists it at another. [OpenWriter]
// writes to directories; package store/cloud writes to buckets, and reads those
// that are not public; package store/draft writes releases on GitHub.
//
//	place, err := store.Open("gs://release/v1.2.3/", rt)
//	…
//	objects, err := place.List(ctx)
//	body, size, err := place.Open(ctx, "bin/linux/amd64/tool")
//
// Everything in a place is listed or is an error: a symbolic link, a device, or
// a name outside the grammar of [CheckName] is refused and never skipped,
// because a skipped object would never be judged. Three answers are kept apart:
// missing ([ErrNotFound]), unavailable ([*verdict.UnavailableError]), and
// refused (codes PATH and FILE_TYPE).
//
// A tar archive is a place if GNU tar, bsdtar, busybox and python unpack it to
// the objects that are listed: regular files and directories, with plain names
// and sizes. Anything else in it is refused: links (FILE_TYPE), extended headers
// and records that programs read in different ways (ARCHIVE_AMBIGUOUS), bytes
// after its end (ARCHIVE_HIDDEN), a name twice (ARCHIVE_TWICE), an archive that
// is cut off or compressed (ARCHIVE_PARSE). tar --format=ustar makes one.
//
// A release on GitHub is flat, so an asset has the planned name with "_" in place
// of "/", and the planned name as its label; both are read back. The release is
// read with the token of GH_TOKEN, GITHUB_TOKEN (GH_ENTERPRISE_TOKEN for the host
// GH_HOST) or gh, if there is one. github+file is a directory of downloaded assets
// with their listing in assets.json, as the API answers /releases/ID/assets.
//
// The package verifies no digest and limits no size: everything that it reads
// is only a claim of the place until the caller has hashed it.
package store

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// MaxObjects is how many objects a place may list at most.
const MaxObjects = 2_000_000

// Object is one object of a place, as the place describes it.
type Object struct {
	// Name is relative to the place and satisfies [CheckName].
	Name string
	// Size in bytes; a claim until the bytes were read.
	Size int64
	// Generation names this version of the object if the place has such names,
	// else "".
	Generation string
}

// Place is where objects can be read. Implementations are safe for concurrent
// use; only their transport retries.
type Place interface {
	// URI returns the canonical address of the place.
	URI() string
	// List returns every object, sorted by name. A place that cannot be
	// listed answers [ErrNotListable].
	List(ctx context.Context) ([]Object, error)
	// Open returns the bytes of one object and the size that the place
	// declares, -1 if it declares none. The caller closes the reader. An
	// object that is not there is [ErrNotFound].
	Open(ctx context.Context, name string) (io.ReadCloser, int64, error)
}

// Writer is where objects can be written.
type Writer interface {
	// Put writes one object: all of it or, on error, nothing. When it
	// returns nil the object is durable. size is the exact number of bytes,
	// or -1 if unknown; another number of bytes is an error.
	Put(ctx context.Context, name string, size int64, r io.Reader, opts PutOptions) error
}

// PutOptions says how an object is written.
type PutOptions struct {
	// IfAbsent makes Put answer [ErrExists] if the object exists, even with
	// the same bytes. Otherwise the object is replaced.
	IfAbsent bool
	// MediaType is stored with the object if the place supports that. Default
	// "application/octet-stream".
	MediaType string
}

// Open returns the place at uri, reached through rt where a network is needed.
// Nothing is read yet.
func Open(uri string, rt http.RoundTripper) (Place, error) {
	if !strings.Contains(uri, "://") {
		if _, _, is := splitTape(uri); is {
			return openTape(uri)
		}
		return openDir(uri)
	}
	u, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "file" && u.Scheme != "tar" && u.Scheme != "github+file" && rt == nil {
		return nil, usage("opening place %q: no transport", uri)
	}
	switch u.Scheme {
	case "file":
		return openLocal(u, openDir)
	case "tar":
		return openLocal(u, openTape)
	case "http", "https":
		return openWeb(u, rt), nil
	case "gs", "gs+http", "s3", "s3+http", "s3+https":
		return openBucket(uri, rt)
	case "github", "github+https", "github+http":
		return openRelease(uri, rt)
	case "github+file":
		return openLocal(u, openRecorded)
	}
	return nil, usage("opening place %q: unknown scheme %q", uri, u.Scheme)
}

// OpenWriter returns the writer of the directory at uri, which is created by
// the first write.
func OpenWriter(uri string) (Writer, error) {
	if !strings.Contains(uri, "://") {
		return openDir(uri)
	}
	u, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "file" {
		return nil, usage("opening place %q for writing: not a directory", uri)
	}
	return openLocal(u, openDir)
}

// parseURI refuses credentials, a query and a fragment. The scheme is returned
// in lower case.
func parseURI(uri string) (*url.URL, error) {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return nil, usage("parsing place: %w", err)
	case u.User != nil:
		return nil, usage("parsing place %q: a URI must not contain credentials", u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, usage("parsing place %q: a place has no query and no fragment", uri)
	}
	return u, nil
}

func openLocal[T any](u *url.URL, open func(path string) (T, error)) (place T, err error) {
	if u.Host != "" && u.Host != "localhost" {
		return place, usage("opening place %q: a %s URI must not name another host", u, u.Scheme)
	}
	return open(filepath.FromSlash(u.Path))
}

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
