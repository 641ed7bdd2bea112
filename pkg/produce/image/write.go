package image

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Write writes the image into repo: blobs, then the manifest of each
// platform, then the index, so every written document refers to existing
// ones. It sets no tag. Repeating it writes nothing again.
func (b *Built) Write(ctx context.Context, sink registry.Sink, repo string) (registry.Descriptor, error) {
	written := map[digest.Digest]bool{}
	for _, c := range b.Children {
		if err := c.write(ctx, sink, repo, written); err != nil {
			return registry.Descriptor{}, fmt.Errorf("writing %s for %s: %w", repo, c.Platform, err)
		}
	}
	if err := sink.PushManifest(ctx, repo, b.Descriptor, b.Raw); err != nil {
		return registry.Descriptor{}, fmt.Errorf("writing index of %s: %w", repo, err)
	}
	return b.Descriptor, nil
}

// write writes one child; written are the blobs that exist already.
func (c Child) write(ctx context.Context, sink registry.Sink, repo string, written map[digest.Digest]bool) error {
	for _, l := range c.Layers {
		if written[l.Descriptor.Digest] {
			continue
		}
		open := func() (io.ReadCloser, error) { return l.Open(ctx) }
		if err := sink.PushBlob(ctx, repo, l.Descriptor, open); err != nil {
			return err
		}
		written[l.Descriptor.Digest] = true
	}
	config := blob(types.OCIConfigJSON, c.ConfigRaw)
	if err := sink.PushBlob(ctx, repo, config, reader(c.ConfigRaw)); err != nil {
		return err
	}
	d := blob(types.OCIManifestSchema1, c.Raw)
	d.Platform = c.Platform
	return sink.PushManifest(ctx, repo, d, c.Raw)
}

func blob(mediaType types.MediaType, raw []byte) registry.Descriptor {
	return registry.Descriptor{MediaType: string(mediaType), Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
}

func reader(raw []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
}
