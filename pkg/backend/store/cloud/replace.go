package cloud

import (
	"bytes"
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
// the object is another one than was looked at.
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
	err = b.uploadOver(ctx, bucket, name, src, over{held, r.MediaType})
	switch {
	case err == nil:
		err = b.settle(ctx, bucket, name, src)
	case src.ended && b.holds(ctx, bucket, name, src) == nil:
		err = nil // it failed, and was done
	case gcerrors.Code(err) == gcerrors.FailedPrecondition:
		return changed
	}
	if err != nil {
		return b.unavailable(op, flat(err))
	}
	return nil
}

// maxReplaced bounds an object that is replaced.
const maxReplaced = 256 << 20

// over is what is written over, as the bucket calls it, and what takes its
// place.
type over struct {
	held      *blob.Attributes
	mediaType string
}

// held is the object that is there now.
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
	if o.mediaType == "" {
		o.mediaType = "application/octet-stream"
	}
	return b.send(ctx, bucket, name, src, &blob.WriterOptions{ContentType: o.mediaType, BeforeWrite: o.tie, BufferSize: buffer(src.want)})
}

// tie makes the bucket refuse a write over anything else, in the way of the
// library that as has.
func (o over) tie(as func(any) bool) error {
	var handle **storage.ObjectHandle
	var upload *transfermanager.UploadObjectInput
	var object storage.ObjectAttrs
	switch {
	case as(&handle) && o.held.As(&object) && object.Generation != 0:
		*handle = (*handle).If(storage.Conditions{GenerationMatch: object.Generation})
	case as(&upload) && o.held.ETag != "":
		upload.IfMatch = &o.held.ETag
	default:
		return errors.New("the library gives no way to tie the write to what is there")
	}
	return nil
}
