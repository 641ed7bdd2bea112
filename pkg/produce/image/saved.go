package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// saved lists the images of a docker save archive: manifest.json names a
// configuration and layers for each, and the configuration binds the layers.
// The manifest is generated.
func saved(ctx context.Context, a *registry.Archive) (list []v1.Image, err error) {
	if !a.Holds("manifest.json") {
		return nil, verdict.Refuse(verdict.FileType, "archive", "neither index.json nor manifest.json: want an OCI image layout, or the output of docker save")
	}
	entries, err := a.Saved(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		img, err := assembled(ctx, a, e)
		if err != nil {
			return nil, err
		}
		list = append(list, img)
	}
	return list, nil
}

// assembled is the image of a configuration and layers.
func assembled(ctx context.Context, a *registry.Archive, s registry.Saved) (v1.Image, error) {
	raw, err := a.Config(ctx, s)
	if err != nil {
		return nil, err
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: describe(types.OCIConfigJSON, raw), Layers: []v1.Descriptor{}}
	where := map[v1.Hash]string{}
	for _, name := range s.Layers {
		d, err := descriptor(ctx, a, name)
		if err != nil {
			return nil, err
		}
		where[d.Digest] = name
		m.Layers = append(m.Layers, d)
	}
	manifest, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding manifest: %w", err)
	}
	return partial.CompressedToImage(&core{kind: types.OCIManifestSchema1, manifest: manifest, config: raw, open: func(h v1.Hash) (io.ReadCloser, error) {
		return a.Layer(ctx, where[h])
	}})
}

// descriptor describes a layer, by its first bytes: docker save writes no
// media types.
func descriptor(ctx context.Context, a *registry.Archive, name string) (v1.Descriptor, error) {
	f, err := a.Layer(ctx, name)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer f.Close()
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return v1.Descriptor{}, err
	}
	sum, size, err := digest.SumSHA256(io.MultiReader(bytes.NewReader(head[:n]), f))
	if err != nil {
		return v1.Descriptor{}, err
	}
	kind := types.OCIUncompressedLayer
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		kind = types.OCILayer
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		kind = types.OCILayerZStd
	}
	return v1.Descriptor{MediaType: kind, Digest: hash(sum), Size: size}, nil
}
