package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// NextActMissing is what to do about an image that is not in the registry.
const NextActMissing = "check the spelling of the image, its tag or digest and the registry; a private image is shown only after a login, and a new one only after it was pushed"

// ErrNotFound means that the registry has no such repository, tag, manifest or
// blob.
var ErrNotFound error = notFound{}

type notFound struct{}

func (notFound) Error() string { return "not found" }

// Code is the reason code of this error.
func (notFound) Code() string { return "MISSING" }

// NextAct is what to do about an image that is not in the registry.
func (notFound) NextAct() string { return NextActMissing }

func usage(format string, args ...any) error {
	return &verdict.UsageError{Err: fmt.Errorf(format, args...)}
}

// tampered reports bytes that do not match their descriptor; err is a
// [*digest.MismatchError] or [*digest.SizeError].
func tampered(place string, d digest.Digest, err error) error {
	return verdict.Coded(verdict.Tampered, "reading %s at %q: %w", d, place, err)
}

// TagRace reports a tag that named another digest right after it was written.
func TagRace(tag string, want, got digest.Digest) error {
	return verdict.Coded(verdict.TagRace, "tagging %q: another writer changed the tag at the same time: want %s, got %s", tag, want, got)
}

// tooLarge reports content larger than the limit.
func tooLarge(place, what string, limit int64) error {
	return verdict.Coded(verdict.Limit, "reading %s at %q: more than %d", what, place, limit)
}

// FormError reports a manifest whose digest is right but whose content is
// invalid.
type FormError struct {
	Digest digest.Digest
	Err    error
}

// Error names the manifest and the cause.
func (e *FormError) Error() string { return fmt.Sprintf("parsing manifest %s: %v", e.Digest, e.Err) }

// Unwrap returns the cause.
func (e *FormError) Unwrap() error { return e.Err }

// Code is the reason code of the refusal.
func (e *FormError) Code() string { return "MANIFEST_PARSE" }

// verified returns the bytes of d from body, hashed as they are read.
func verified(body io.ReadCloser, place string, d Descriptor) io.ReadCloser {
	world := transport.Reporting(body, func(err error) error {
		return &verdict.UnavailableError{Place: place, Op: "reading " + d.Digest.String(), Err: err}
	})
	return &verifiedBody{
		Closer: body,
		r:      digest.NewVerifyingReader(world, d.Digest, d.Size),
		place:  place,
		want:   d.Digest,
		bytes:  d.Size,
	}
}

type verifiedBody struct {
	io.Closer
	r     io.Reader
	place string
	want  digest.Digest
	bytes int64
}

// Read implements [io.Reader].
func (v *verifiedBody) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	var mismatch *digest.MismatchError
	var size *digest.SizeError
	if errors.As(err, &mismatch) || errors.As(err, &size) {
		err = tampered(v.place, v.want, err)
	}
	return n, err
}

// size returns how many bytes are expected.
func (v *verifiedBody) size() int64 { return v.bytes }

// maxRoom bounds the memory allocated for a size that is only claimed.
const maxRoom = 64 << 10

// Read reads all of d, which must not have more than limit bytes.
func Read(ctx context.Context, src Source, repo string, d Descriptor, limit int64) ([]byte, error) {
	if d.Size > limit {
		return nil, tooLarge(repo, "bytes of "+d.Digest.String(), limit)
	}
	body, err := src.Fetch(ctx, repo, d)
	if err != nil {
		return nil, err
	}
	return fetchAll(body)
}

// readDocument reads a manifest or an index, and parses it.
func readDocument(ctx context.Context, src Source, repo string, d Descriptor) (document, []byte, error) {
	raw, err := Read(ctx, src, repo, d, MaxManifest)
	if err != nil {
		return document{}, nil, err
	}
	doc, err := parse(d, raw)
	return doc, raw, err
}

// fetchAll reads a whole manifest. Memory is allocated once, for the declared
// size.
func fetchAll(body io.ReadCloser) ([]byte, error) {
	defer body.Close()
	sized, is := body.(interface{ size() int64 })
	if !is {
		return io.ReadAll(body)
	}
	all := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+min(max(0, sized.size()), maxRoom)))
	_, err := all.ReadFrom(body)
	return all.Bytes(), err
}

// refusedError is an answer of a registry that no repetition changes, with the
// next act.
type refusedError struct {
	error
	act string
}

// Unwrap returns the answer.
func (e *refusedError) Unwrap() error { return e.error }

// NextAct is what to do about it; package verdict reads it.
func (e *refusedError) NextAct() string { return e.act }

// loginAct is what to do if a registry does not accept the credentials.
func loginAct(host string) string {
	return "log in to " + host + " with an account that may do this (docker login " + host + ", or the credential helper in the Docker configuration), and check the spelling of the repository; nothing was decided"
}

// advised adds the next act to an answer about which something can be done.
func advised(err error, host string) error {
	var answer *ggcr.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &refusedError{err, loginAct(host)}
	case http.StatusRequestEntityTooLarge:
		return &refusedError{err, "ask the operators of " + host + " to allow larger requests, at least as large as the largest layer: in nginx, client_max_body_size 0 for /v2/; then run the command again, which continues"}
	case http.StatusMethodNotAllowed:
		return &refusedError{err, "ask the operators of " + host + " whether it is read-only at the moment, and run the command again when it is not"}
	}
	return err
}
