package cloud

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"time"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// errLost is the cause when a bucket accepted an object and does not have it.
var errLost = errors.New("the bucket accepted the object, but does not have it")

// errRemoved is the cause when a bucket that keeps versions refuses a new object
// because of one that was removed. Amazon S3 and Cloud Storage accept it.
var errRemoved = errors.New("the bucket has no such object, but refuses to write one where an older version was removed: remove that version, or its delete marker")

// bound matches conditional writes: repeating one does nothing, so it may be
// sent again.
func bound(req *http.Request) bool {
	return req.Method == http.MethodPost && req.URL.Query().Has("ifGenerationMatch") && !req.URL.Query().Has("upload_id")
}

// Put implements [store.Writer]. The object is looked up afterwards, even if
// the bucket reports a failure: an object with exactly these bytes was written.
func (b *Bucket) Put(ctx context.Context, name string, size int64, r io.Reader, opts store.PutOptions) error {
	if err := store.CheckName(name); err != nil {
		return fmt.Errorf("writing at %q: %w", b.URI(), err)
	}
	op := fmt.Sprintf("writing %q", name)
	bucket, err := b.open(ctx)
	if err != nil {
		return b.unavailable(op, err)
	}
	opts.MediaType = cmp.Or(opts.MediaType, "application/octet-stream")
	src := b.source(r, size)
	err = b.upload(ctx, bucket, name, src, opts)
	switch {
	case src.err != nil:
		return fmt.Errorf("%s: %w", op, src.err)
	case opts.IfAbsent && gcerrors.Code(err) == gcerrors.FailedPrecondition:
		if _, err := bucket.Attributes(ctx, b.at.Prefix+name); b.at.S3 && gcerrors.Code(err) == gcerrors.NotFound {
			return b.unavailable(op, errRemoved)
		}
		return fmt.Errorf("%s at %q: %w", op, b.URI(), store.ErrExists)
	case err == nil:
		err = b.awaitObject(ctx, bucket, name, src)
	case src.ended && b.holds(ctx, bucket, name, src) == nil:
		err = nil // the write failed, but was done
	}
	if err != nil {
		return b.unavailable(op, flat(err))
	}
	return nil
}

func (b *Bucket) upload(ctx context.Context, bucket *blob.Bucket, name string, src *source, opts store.PutOptions) error {
	return b.send(ctx, bucket, name, src, &blob.WriterOptions{
		ContentType: opts.MediaType, IfNotExist: opts.IfAbsent, BufferSize: buffer(src.want),
	})
}

func (b *Bucket) send(ctx context.Context, bucket *blob.Bucket, name string, src *source, opts *blob.WriterOptions) error {
	// Cancelling its context aborts an upload; closing would complete it.
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	w, err := bucket.NewWriter(ctx, b.at.Prefix+name, opts)
	if err != nil {
		return err
	}
	if _, err := io.Copy(struct{ io.Writer }{w}, src); err != nil {
		giveUp()
		_ = w.Close()
		return err
	}
	return w.Close()
}

// awaitObject waits, within limits, until the bucket shows the accepted object.
func (b *Bucket) awaitObject(ctx context.Context, bucket *blob.Bucket, name string, src *source) error {
	patience, _ := transport.Patience() // a wrong value is reported by the transport
	begun, wait := time.Now(), min(100*time.Millisecond, patience/16)
	for {
		err := b.holds(ctx, bucket, name, src)
		if gcerrors.Code(err) != gcerrors.NotFound {
			return err
		}
		if time.Since(begun)+wait > patience {
			return errLost
		}
		if err := transport.Sleep(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}

// holds checks whether the bucket has an object with these bytes.
func (b *Bucket) holds(ctx context.Context, bucket *blob.Bucket, name string, src *source) error {
	held, err := bucket.Attributes(ctx, b.at.Prefix+name)
	if err != nil {
		return err
	}
	var object storage.ObjectAttrs
	switch {
	case held.Size != src.seen,
		b.at.S3 && len(held.MD5) > 0 && !bytes.Equal(held.MD5, src.sum.Sum(nil)), // no MD5 for an object uploaded in parts
		held.As(&object) && object.CRC32C != 0 && !bytes.Equal(binary.BigEndian.AppendUint32(nil, object.CRC32C), src.sum.Sum(nil)):
		return errors.New("the object in the bucket differs from what was written")
	}
	return nil
}

// buffer is the size of one request: a whole small object, or the default.
func buffer(size int64) int {
	const whole = 8 << 20
	if size < 0 || size >= whole {
		return 0
	}
	return int(size) + 1
}

// source fails if the number of bytes differs from the declared one, keeps its
// own error apart from those of the bucket, and hashes what it delivered.
type source struct {
	r     io.Reader
	want  int64     // -1 if unknown
	sum   hash.Hash // MD5, which the bucket reports, against accidental damage
	seen  int64
	ended bool // everything was read
	err   error
}

func (b *Bucket) source(r io.Reader, size int64) *source {
	s := &source{r: r, want: size, sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	if b.at.S3 {
		s.sum = md5.New()
	}
	return s
}

// Read implements [io.Reader].
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.seen += int64(n)
	_, _ = s.sum.Write(p[:n]) // never fails
	if s.want >= 0 && (s.seen > s.want || err == io.EOF && s.seen != s.want) {
		err = &digest.SizeError{Want: s.want, Got: s.seen}
	}
	s.ended = err == io.EOF
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
