package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Replacement says which bytes take the place of which object.
type Replacement struct {
	// Old is the SHA-256 digest of the object that may be replaced.
	Old       digest.Digest
	New       []byte
	MediaType string
}

// Replacer is a [Writer] that can tie a write to what it replaces: nothing
// comes between the look and the write. It answers [ErrChanged] if another
// object is there, and [ErrNotFound] if none is.
type Replacer interface {
	Replace(ctx context.Context, name string, r Replacement) error
}

// maxReplaced bounds an object that is replaced.
const maxReplaced = 256 << 20

// Replace writes over an object if it is still the one that was looked at.
// Where the writer is no [Replacer] it looks, writes, and reads back; what
// another wrote in between may be lost then, and is found out only if it came
// last.
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

// check demands that the object there has a digest.
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

// Replace implements [Replacer], against every other process of this machine
// that does so.
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
