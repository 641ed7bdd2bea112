package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// FromLayout returns the base that pin names in an OCI image layout: an index
// or the image of one platform. The layout's own index.json is not used.
func FromLayout(ctx context.Context, dir fs.FS, pin digest.Digest) (Base, error) {
	layout := registry.ReadLayout(dir)
	raw, err := layout.Document(ctx, pin)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(raw)
	if err != nil {
		return nil, verdict.Wrap(verdict.FileType, pin.String(), err)
	}
	open := func(ctx context.Context, h v1.Hash) (v1.Image, error) {
		raw, err := document(ctx, layout, h)
		if err != nil {
			return nil, err
		}
		return inLayout(ctx, layout, raw)
	}
	base := &pinned{root: hash(pin), name: pin.String(), open: open}
	if kind.IsIndex() {
		if err := base.lists(raw); err != nil {
			return nil, verdict.Wrap(verdict.FileType, pin.String(), err)
		}
	}
	return base, nil
}

// kindOf is the media type in a document, or the one implied by its fields:
// the image specification makes the field optional.
func kindOf(raw []byte) (types.MediaType, error) {
	var head struct {
		MediaType types.MediaType `json:"mediaType"`
		Manifests []v1.Descriptor `json:"manifests"`
		Layers    []v1.Descriptor `json:"layers"`
	}
	if err := decodeStrict(raw, &head); err != nil {
		return "", err
	}
	switch {
	case head.Manifests != nil && head.Layers != nil:
		return "", errors.New("the document is both an index and a manifest")
	case head.MediaType == "" && head.Manifests != nil:
		return types.OCIImageIndex, nil
	case head.MediaType == "" && head.Layers != nil:
		return types.OCIManifestSchema1, nil
	case head.MediaType.IsIndex() && head.Layers == nil, head.MediaType.IsImage() && head.Manifests == nil:
		return head.MediaType, nil
	}
	return "", fmt.Errorf("media type %q is not an image", head.MediaType)
}

// document reads a document by its digest.
func document(ctx context.Context, layout *registry.LayoutReader, h v1.Hash) ([]byte, error) {
	sum, err := digest.Parse(h.String())
	if err != nil {
		return nil, verdict.Wrap(verdict.FileType, "layout", err)
	}
	return layout.Document(ctx, sum)
}

// inLayout is the image of a manifest whose blobs are in a layout.
func inLayout(ctx context.Context, layout *registry.LayoutReader, raw []byte) (v1.Image, error) {
	kind, err := kindOf(raw)
	if err != nil || !kind.IsImage() {
		return nil, verdict.Refuse(verdict.FileType, "layout", "a child of the index is not an image: %v", err)
	}
	var m v1.Manifest
	if err := decodeStrict(raw, &m); err != nil {
		return nil, verdict.Wrap(verdict.FileType, "layout", err)
	}
	config, err := document(ctx, layout, m.Config.Digest)
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&core{kind: kind, manifest: raw, config: config, open: func(h v1.Hash) (io.ReadCloser, error) {
		sum, err := digest.Parse(h.String())
		if err != nil {
			return nil, err
		}
		f, _, err := layout.Blob(ctx, sum) // [Layer.Open] verifies it
		return f, err
	}})
}

// core is an image whose documents are in memory.
type core struct {
	kind             types.MediaType
	manifest, config []byte
	open             func(v1.Hash) (io.ReadCloser, error)
}

// MediaType implements [partial.CompressedImageCore].
func (c *core) MediaType() (types.MediaType, error) { return c.kind, nil }

// RawManifest implements [partial.CompressedImageCore].
func (c *core) RawManifest() ([]byte, error) { return c.manifest, nil }

// RawConfigFile implements [partial.CompressedImageCore].
func (c *core) RawConfigFile() ([]byte, error) { return c.config, nil }

// LayerByDigest implements [partial.CompressedImageCore].
func (c *core) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	return compressed{h, c.open}, nil
}

// compressed is a layer of a core. Its size and type are read from the
// manifest.
type compressed struct {
	named v1.Hash
	open  func(v1.Hash) (io.ReadCloser, error)
}

// Digest implements [partial.CompressedLayer].
func (c compressed) Digest() (v1.Hash, error) { return c.named, nil }

// Compressed implements [partial.CompressedLayer].
func (c compressed) Compressed() (io.ReadCloser, error) { return c.open(c.named) }

// Size implements [partial.CompressedLayer].
func (c compressed) Size() (int64, error) { return 0, errors.New("the size is in the manifest") }

// MediaType implements [partial.CompressedLayer].
func (c compressed) MediaType() (types.MediaType, error) {
	return "", errors.New("the media type is in the manifest")
}

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
