package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Replacement names the object to replace, and its new bytes.
type Replacement struct {
	// Old is the SHA-256 digest of the object that may be replaced.
	Old       digest.Digest
	New       []byte
	MediaType string
}

// Replacer is a [Writer] with conditional writes: the object is replaced only
// if it did not change since it was read. It answers [ErrChanged] if another
// object is there, and [ErrNotFound] if none is.
type Replacer interface {
	Replace(ctx context.Context, name string, r Replacement) error
}

// maxReplaced bounds the size of an object that is replaced.
const maxReplaced = 256 << 20

// Replace overwrites an object if it still has the given digest. If the writer
// is not a [Replacer], it reads, writes, and reads back; a concurrent write may
// then be lost, and is detected only if it came last.
func Replace(ctx context.Context, at Place, w Writer, name string, r Replacement) error {
	if tied, can := w.(Replacer); can {
		return tied.Replace(ctx, name, r)
	}
	if err := r.check(ctx, at, name, r.Old); err != nil {
		return err
	}
	if err := w.Put(ctx, name, int64(len(r.New)), bytes.NewReader(r.New), PutOptions{MediaType: r.MediaType}); err != nil {
		return err
	}
	return r.check(ctx, at, name, digest.Of(digest.SHA256, r.New))
}

// check requires that the current object has a digest.
func (r Replacement) check(ctx context.Context, at Place, name string, want digest.Digest) error {
	raw, err := Read(ctx, at, name, maxReplaced)
	if err != nil {
		return err
	}
	if !digest.Of(digest.SHA256, raw).Equal(want) {
		return fmt.Errorf("replacing %s at %q: %w", quote(name), at.URI(), ErrChanged)
	}
	return nil
}

// Replace implements [Replacer]; it excludes other processes of this machine
// that use it.
func (d *dir) Replace(ctx context.Context, name string, r Replacement) error {
	unlock, err := d.lock()
	if err != nil {
		return d.unavailable("locking", err)
	}
	defer unlock()
	if err := r.check(ctx, d, name, r.Old); err != nil {
		return err
	}
	return d.Put(ctx, name, int64(len(r.New)), bytes.NewReader(r.New), PutOptions{MediaType: r.MediaType})
}
