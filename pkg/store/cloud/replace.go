package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/store"
)

// Replace implements [store.Replacer]: the bucket itself refuses the write if
// the object has another generation than the one that was looked at.
func (b *Bucket) Replace(ctx context.Context, name string, r store.Replacement) error {
	if err := store.CheckName(name); err != nil {
		return fmt.Errorf("replacing at %q: %w", b.URI(), err)
	}
	op := fmt.Sprintf("replacing %q", name)
	bucket, err := b.open(ctx)
	if err != nil {
		return b.unavailable(op, err)
	}
	generation, err := b.generation(ctx, bucket, name, op)
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
	src := &source{r: bytes.NewReader(r.New), want: int64(len(r.New)), sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	err = b.uploadOver(ctx, bucket, name, src, over{generation, r.MediaType})
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

// over is the generation that is written over, and what takes its place.
type over struct {
	generation int64
	mediaType  string
}

// generation is that of the object that is there now.
func (b *Bucket) generation(ctx context.Context, bucket *blob.Bucket, name, op string) (int64, error) {
	held, err := bucket.Attributes(ctx, b.at.Prefix+name)
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return 0, fmt.Errorf("%s at %q: %w", op, b.URI(), store.ErrNotFound)
	case err != nil:
		return 0, b.unavailable(op, flat(err))
	}
	var object storage.ObjectAttrs
	if !held.As(&object) || object.Generation == 0 {
		return 0, b.unavailable(op, errors.New("the bucket names no generation of the object"))
	}
	return object.Generation, nil
}

func (b *Bucket) uploadOver(ctx context.Context, bucket *blob.Bucket, name string, src *source, o over) error {
	if o.mediaType == "" {
		o.mediaType = "application/octet-stream"
	}
	tie := func(as func(any) bool) error {
		var handle **storage.ObjectHandle
		if !as(&handle) {
			return errors.New("the library gives no way to tie the write to a generation")
		}
		*handle = (*handle).If(storage.Conditions{GenerationMatch: o.generation})
		return nil
	}
	return b.send(ctx, bucket, name, src, &blob.WriterOptions{ContentType: o.mediaType, BeforeWrite: tie, BufferSize: buffer(src.want)})
}
