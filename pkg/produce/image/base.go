package image

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Scratch is the empty base, for any platform.
func Scratch() Base { return scratch{} }

type scratch struct{}

// Image implements [Base].
func (scratch) Image(_ context.Context, platform string) (v1.Image, error) {
	p, err := v1.ParsePlatform(platform)
	if err != nil {
		return nil, verdict.Wrap(verdict.Platform, platform, err)
	}
	return mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, RootFS: v1.RootFS{Type: "layers"},
	})
}

// below is what was read of a base image.
type below struct {
	digest         digest.Digest // of the manifest
	manifest       v1.Manifest
	config         v1.ConfigFile
	raw, configRaw []byte
	layers         []Layer
}

// readDocuments reads a base image: the raw documents, each compared with its digest,
// and a way to open each layer.
func readDocuments(image v1.Image, p Platform) (below, error) {
	b, err := documents(image)
	if err != nil {
		return below{}, readError(p, err)
	}
	manifest, config := b.manifest, b.config
	if got := platformOf(config.Platform()); got != normal(p.String()) {
		return below{}, &verdict.Error{Finding: verdict.Find(verdict.Platform, p.String(),
			"the base image is for another platform").Differ(p.String(), got)}
	}
	if len(config.RootFS.DiffIDs) != len(manifest.Layers) {
		return below{}, verdict.Refuse(verdict.Platform, p.String(),
			"the base image has %d layers and %d in its configuration", len(manifest.Layers), len(config.RootFS.DiffIDs))
	}
	if len(manifest.Layers) > maxLayers {
		return below{}, tooManyLayers()
	}
	// The default variant of an architecture is omitted, as in the requested
	// platform.
	b.config.Variant = ""
	for i, d := range manifest.Layers {
		l, err := baseLayer(image, d, config.RootFS.DiffIDs[i])
		if err != nil {
			return below{}, readError(p, err)
		}
		b.layers = append(b.layers, l)
	}
	return b, nil
}

func documents(image v1.Image) (b below, err error) {
	if b.raw, err = image.RawManifest(); err != nil {
		return below{}, err
	}
	named, err := image.Digest()
	if err != nil {
		return below{}, err
	}
	if err := decode(b.raw, named, &b.manifest); err != nil {
		return below{}, fmt.Errorf("manifest: %w", err)
	}
	if b.configRaw, err = image.RawConfigFile(); err != nil {
		return below{}, err
	}
	if err := decode(b.configRaw, b.manifest.Config.Digest, &b.config); err != nil {
		return below{}, fmt.Errorf("configuration: %w", err)
	}
	b.digest, err = digest.Parse(named.String())
	return b, err
}

// baseLayer keeps a layer unchanged. Only the name of its type is changed to
// OCI's: the bytes of Docker's types are the same.
func baseLayer(image v1.Image, d v1.Descriptor, diffID v1.Hash) (Layer, error) {
	mediaType, err := ociType(d.MediaType)
	if err != nil {
		return Layer{}, err
	}
	if len(d.URLs) > 0 {
		return Layer{}, verdict.Refuse(verdict.FileType, d.Digest.String(), "the base layer is stored at external addresses")
	}
	sum, err := digest.Parse(d.Digest.String())
	if err != nil {
		return Layer{}, err
	}
	plain, err := digest.Parse(diffID.String())
	if err != nil {
		return Layer{}, err
	}
	open := func(context.Context) (io.ReadCloser, error) {
		l, err := image.LayerByDigest(d.Digest)
		if err != nil {
			return nil, err
		}
		return l.Compressed()
	}
	return Layer{
		Descriptor: registry.Descriptor{MediaType: string(mediaType), Digest: sum, Size: d.Size},
		DiffID:     plain, open: open,
	}, nil
}

func ociType(t types.MediaType) (types.MediaType, error) {
	switch t {
	case types.OCILayer, types.OCILayerZStd, types.OCIUncompressedLayer:
		return t, nil
	case types.DockerLayer:
		return types.OCILayer, nil
	case types.DockerUncompressedLayer:
		return types.OCIUncompressedLayer, nil
	}
	// Layers served by others can change or vanish, so the image would not be
	// complete.
	return "", verdict.Refuse(verdict.FileType, string(t), "base layers of this type cannot be copied")
}

// platformOf is the normal form of the platform in a configuration. The
// version of the operating system is ignored.
func platformOf(p *v1.Platform) string {
	if p == nil {
		return ""
	}
	name := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		name += "/" + p.Variant
	}
	return normal(name)
}

// normal omits the default variant.
func normal(platform string) string {
	for full, short := range map[string]string{"/amd64/v1": "/amd64", "/arm64/v8": "/arm64", "/arm/v7": "/arm"} {
		if n := len(platform) - len(full); n > 0 && platform[n:] == full {
			return platform[:n] + short
		}
	}
	return platform
}

// readError classifies an error of reading a base: a refusal as such,
// anything else as unavailability.
func readError(p Platform, err error) error {
	var refusal *verdict.Error
	var mismatch *digest.MismatchError
	switch {
	case errors.As(err, &refusal):
		return fmt.Errorf("reading base for %s: %w", p, err)
	case errors.As(err, &mismatch):
		return verdict.Wrap(verdict.Tampered, "base for "+p.String(), err)
	}
	return &verdict.UnavailableError{Place: "base for " + p.String(), Op: "reading image", Err: err}
}
