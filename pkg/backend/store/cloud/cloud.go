// Package cloud writes to buckets, and reads private ones.
//
//	w, err := cloud.OpenWriter("gs://release/v1.2.3/", rt)
//	…
//	err = w.Put(ctx, "bin/tool", size, body, store.PutOptions{IfAbsent: true})
//
// Buckets of Google Cloud Storage are reached with the application default
// credentials, those of Amazon S3 and compatible services with what Amazon's
// tools would find. Missing credentials are an error; requests are never sent
// without them. "gs+http://127.0.0.1:PORT/bucket/" is an emulator on this
// machine, without credentials; so is the same with s3.
//
// It is separate from package store because its client library is larger than
// everything else together: programs that only verify read public buckets with
// package store. All requests go through the given transport, those for
// credentials too.
//
// Other projects should not import this package: it changes without notice.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcerrors"
	"gocloud.dev/gcp"
	"google.golang.org/api/option"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Bucket is a part of a bucket: a place and its writer. It is safe for
// concurrent use.
type Bucket struct {
	at store.Bucket
	rt http.RoundTripper

	mu     sync.Mutex // guards bucket while it is opened
	bucket *blob.Bucket
}

var _ interface {
	store.Place
	store.Writer
} = (*Bucket)(nil)

// Open returns the bucket at uri. Nothing is requested yet, credentials
// included.
func Open(uri string, rt http.RoundTripper) (*Bucket, error) {
	at, err := store.ParseBucket(uri)
	if err != nil {
		return nil, err
	}
	if rt == nil {
		return nil, &verdict.UsageError{Err: fmt.Errorf("opening place %q: no transport", uri)}
	}
	return &Bucket{at: at, rt: rt}, nil
}

// OpenWriter is [Open] for callers that only write.
func OpenWriter(uri string, rt http.RoundTripper) (store.Writer, error) {
	b, err := Open(uri, rt)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// URI implements [store.Place].
func (b *Bucket) URI() string { return b.at.URI() }

func (b *Bucket) unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: b.URI(), Op: op, Err: err}
}

// open connects on first use. A failed opening is tried again next time.
func (b *Bucket) open(ctx context.Context) (*blob.Bucket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bucket != nil {
		return b.bucket, nil
	}
	if name := redirected(); name != "" {
		return nil, fmt.Errorf(`%s is set: unset it and use "gs+http://…" or "s3+http://…" instead`, name)
	}
	// Credentials outlive the first call, so they must not end with its
	// context.
	ctx = context.WithoutCancel(ctx)
	if b.at.S3 {
		var err error
		b.bucket, err = b.openAmazon(ctx)
		return b.bucket, err
	}
	client, err := b.client(ctx)
	if err != nil {
		return nil, err
	}
	// The transport retries; the library would do so without a limit.
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	b.bucket, err = gcsblob.OpenBucket(ctx, nil, b.at.Name, &gcsblob.Options{Client: client})
	return b.bucket, err
}

func (b *Bucket) client(ctx context.Context) (*storage.Client, error) {
	rt := transport.RepeatableIf(b.rt, bound)
	if b.at.Emulated {
		anonymous := gcp.NewAnonymousHTTPClient(rt)
		return storage.NewClient(ctx, option.WithHTTPClient(&anonymous.Client),
			option.WithEndpoint(b.at.Endpoint+"/storage/v1/"), storage.WithJSONReads())
	}
	tokens, err := credentials(ctx, b.rt)
	if err != nil {
		return nil, err
	}
	authorised, err := gcp.NewHTTPClient(rt, tokens)
	if err != nil {
		return nil, fmt.Errorf("finding credentials: %w", err)
	}
	return storage.NewClient(ctx, option.WithHTTPClient(&authorised.Client), storage.WithJSONReads())
}

// List implements [store.Place].
func (b *Bucket) List(ctx context.Context) ([]store.Object, error) {
	bucket, err := b.open(ctx)
	if err != nil {
		return nil, b.unavailable("listing", err)
	}
	var objects []store.Object
	last := ""
	for pages := bucket.List(&blob.ListOptions{Prefix: b.at.Prefix}); ; {
		item, err := next(ctx, pages)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, b.unavailable("listing", flat(err))
		}
		// Names come in order, so a listing that loops is noticed.
		if len(objects) > 0 && item.Key <= last {
			return nil, b.unavailable("listing", errors.New("the listing does not advance"))
		}
		last = item.Key
		if len(objects) >= store.MaxObjects {
			return nil, store.TooMany(b.URI())
		}
		name := strings.TrimPrefix(item.Key, b.at.Prefix)
		if err := store.CheckName(name); err != nil {
			return nil, fmt.Errorf("listing %q: %w", b.URI(), err)
		}
		object := store.Object{Name: name, Size: item.Size}
		var attrs storage.ObjectAttrs
		if item.As(&attrs) {
			object.Generation = strconv.FormatInt(attrs.Generation, 10)
		}
		objects = append(objects, object)
	}
	slices.SortFunc(objects, func(a, b store.Object) int { return strings.Compare(a.Name, b.Name) })
	return objects, nil
}

// next returns the next object of a list. The library for S3 panics on an
// object that the list describes only in part, and no answer may end this
// program.
func next(ctx context.Context, pages *blob.ListIterator) (item *blob.ListObject, err error) {
	defer func() {
		if tripped := recover(); tripped != nil {
			item, err = nil, fmt.Errorf("reading the list: %v", tripped)
		}
	}()
	return pages.Next(ctx)
}

// Open implements [store.Place].
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := store.CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("reading at %q: %w", b.URI(), err)
	}
	op := fmt.Sprintf("reading %q", name)
	bucket, err := b.open(ctx)
	if err != nil {
		return nil, 0, b.unavailable(op, err)
	}
	r, err := bucket.NewReader(ctx, b.at.Prefix+name, nil)
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, 0, fmt.Errorf("%s at %q: %w", op, b.URI(), store.ErrNotFound)
	case gcerrors.Code(err) == gcerrors.PermissionDenied:
		return nil, 0, b.unavailable(op, fmt.Errorf("%w: %v", fs.ErrPermission, flat(err)))
	case err != nil:
		return nil, 0, b.unavailable(op, flat(err))
	}
	return transport.Reporting(r, func(err error) error { return b.unavailable(op, flat(err)) }), r.Size(), nil
}

// flat keeps the text of a library's error and the end of a context, but not
// the library's own types: some have a Code method with another meaning.
func flat(err error) error {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return fmt.Errorf("%w: %v", end, err)
		}
	}
	return errors.New(err.Error())
}
