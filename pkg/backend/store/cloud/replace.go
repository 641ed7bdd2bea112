package cloud

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Replace implements [store.Replacer]: the bucket itself refuses the write if
// the object has changed since it was read.
func (b *Bucket) Replace(ctx context.Context, name string, r store.Replacement) error {
	if err := store.CheckName(name); err != nil {
		return fmt.Errorf("replacing at %q: %w", b.URI(), err)
	}
	op := fmt.Sprintf("replacing %q", name)
	bucket, err := b.open(ctx)
	if err != nil {
		return b.unavailable(op, err)
	}
	held, err := b.held(ctx, bucket, name, op)
	if err != nil {
		return err
	}
	there, err := store.Read(ctx, b, name, maxReplaced)
	if err != nil {
		return err
	}
	changed := fmt.Errorf("%s at %q: %w", op, b.URI(), store.ErrChanged)
	if !digest.Of(digest.SHA256, there).Equal(r.Old) {
		return changed
	}
	src := b.source(bytes.NewReader(r.New), int64(len(r.New)))
	err = b.uploadOver(ctx, bucket, name, src, over{held: held, mediaType: r.MediaType})
	switch {
	case err == nil:
		err = b.awaitObject(ctx, bucket, name, src)
	case src.ended && b.holds(ctx, bucket, name, src) == nil:
		err = nil // the write failed, but was done
	case gcerrors.Code(err) == gcerrors.FailedPrecondition:
		return changed
	}
	if err != nil {
		return b.unavailable(op, flat(err))
	}
	return nil
}

// maxReplaced bounds the size of an object that is replaced.
const maxReplaced = 256 << 20

// over is a replacement: the object to overwrite, by its generation or ETag,
// and the new content.
type over struct {
	held       *blob.Attributes
	generation int64 // if held has none
	mediaType  string
}

// held is the current object.
func (b *Bucket) held(ctx context.Context, bucket *blob.Bucket, name, op string) (*blob.Attributes, error) {
	held, err := bucket.Attributes(ctx, b.at.Prefix+name)
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, fmt.Errorf("%s at %q: %w", op, b.URI(), store.ErrNotFound)
	case err != nil:
		return nil, b.unavailable(op, flat(err))
	}
	return held, nil
}

func (b *Bucket) uploadOver(ctx context.Context, bucket *blob.Bucket, name string, src *source, o over) error {
	o.mediaType = cmp.Or(o.mediaType, "application/octet-stream")
	return b.send(ctx, bucket, name, src, &blob.WriterOptions{ContentType: o.mediaType, BeforeWrite: o.makeConditional, BufferSize: buffer(src.want)})
}

// makeConditional makes the bucket refuse a write over any other version, through the
// client that as returns.
func (o over) makeConditional(as func(any) bool) error {
	var handle **storage.ObjectHandle
	var upload *transfermanager.UploadObjectInput
	object := storage.ObjectAttrs{Generation: o.generation}
	switch {
	case as(&handle) && (o.held.As(&object) || o.generation != 0) && object.Generation != 0:
		*handle = (*handle).If(storage.Conditions{GenerationMatch: object.Generation})
	case as(&upload) && o.held.ETag != "":
		upload.IfMatch = &o.held.ETag
	default:
		return errors.New("the client library offers no conditional write for this bucket")
	}
	return nil
}
