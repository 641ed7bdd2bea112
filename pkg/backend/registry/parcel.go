package registry

import (
	"bytes"
	"context"
	"io"
)

// Parcel is a manifest with the blobs that must be pushed before it, as
// [HintedManifest] and [AttachedManifest] make them.
type Parcel struct {
	Descriptor Descriptor
	Raw        []byte
	Blobs      []Blob
}

// PushTo writes all of it, except what is there already.
func (p Parcel) PushTo(ctx context.Context, to Sink, repo string) error {
	for _, b := range p.Blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		if err := to.PushBlob(ctx, repo, b.Descriptor, open); err != nil {
			return err
		}
	}
	return to.PushManifest(ctx, repo, p.Descriptor, p.Raw)
}
