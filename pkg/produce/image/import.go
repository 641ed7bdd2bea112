package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Import reads an image from a tar archive of another tool: an OCI image
// layout, or the output of docker save. It must contain exactly the given
// platforms. r must be readable as long as the result is being written.
//
// OCI documents stay unchanged, byte for byte, including the index if it
// lists the platforms and nothing else. Docker's manifests are converted to
// OCI manifests with the same configurations and layers, reproducibly.
//
// Every digest is verified, including those of the uncompressed layers.
// Layers at external addresses are refused.
func Import(ctx context.Context, r io.ReaderAt, size int64, platforms []string) (*Built, error) {
	a, err := registry.OpenArchive(r, size)
	if err != nil {
		return nil, err
	}
	found, index, err := offered(ctx, a)
	if err != nil {
		return nil, err
	}
	children, err := chosen(found, platforms)
	if err != nil {
		return nil, err
	}
	if err := verifyLayers(ctx, children, maxUnpacked); err != nil {
		return nil, err
	}
	if listsExactly(index, children) {
		return &Built{Raw: index, Children: children, Descriptor: registry.Descriptor{
			MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, index), Size: int64(len(index)),
		}}, nil
	}
	return indexOf(children, nil)
}

// offered lists the images of an archive, with the index that lists them if
// that could stay unchanged. An archive in both formats is read as a layout:
// only there digests name the manifests.
func offered(ctx context.Context, a *registry.Archive) (list []v1.Image, index []byte, err error) {
	if !a.Holds("index.json") {
		list, err = saved(ctx, a)
		return list, nil, err
	}
	entries, err := a.Listed(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(entries) == 1 && entries[0].IsIndex() {
		raw, err := a.Document(ctx, entries[0].Digest)
		if err != nil {
			return nil, nil, err
		}
		if entries[0].MediaType == registry.MediaTypeIndex {
			index = raw
		}
		if entries, err = registry.ListedIn(raw); err != nil {
			return nil, nil, err
		}
	}
	for _, d := range entries {
		img, err := listed(ctx, &a.LayoutReader, d)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, img)
	}
	return list, index, nil
}

// listed is one image of an index. Anything else that builders add, such as
// attestations under the platform "unknown/unknown", is refused: it must be
// published explicitly.
func listed(ctx context.Context, layout *registry.LayoutReader, d registry.Descriptor) (v1.Image, error) {
	// Some writers repeat the type of the configuration there.
	artifact := d.ArtifactType != "" && !isConfig(types.MediaType(d.ArtifactType))
	if d.IsIndex() || !d.IsManifest() || artifact || strings.HasPrefix(d.Platform, "unknown/") {
		return nil, verdict.Refuse(verdict.Platform, d.Digest.String(),
			"the archive contains an entry that is not an image for a platform (%s); export images only, without attestations of the builder", d.MediaType)
	}
	raw, err := layout.Document(ctx, d.Digest)
	if err != nil {
		return nil, err
	}
	if d.Size != int64(len(raw)) {
		return nil, verdict.Refuse(verdict.Tampered, d.Digest.String(), "the archive lists %d bytes but contains %d", d.Size, len(raw))
	}
	img, err := inLayout(ctx, layout, raw)
	if err != nil || d.Platform == "" {
		return img, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, verdict.Wrap(verdict.FileType, d.Digest.String(), err)
	}
	if is := platformOf(config.Platform()); is != normal(d.Platform) {
		return nil, verdict.Refuse(verdict.Platform, d.Digest.String(), "the archive lists the image for %s, but the image is for %s", d.Platform, is)
	}
	return img, nil
}

// chosen assigns images to platforms. Missing and additional images are
// refused.
func chosen(list []v1.Image, platforms []string) ([]Child, error) {
	byPlatform := map[string]v1.Image{}
	for _, img := range list {
		config, err := img.ConfigFile()
		if err != nil {
			return nil, verdict.Wrap(verdict.FileType, "archive", err)
		}
		name := platformOf(config.Platform())
		if byPlatform[name] != nil {
			return nil, verdict.Refuse(verdict.Platform, name, "the archive contains two images for this platform; save one image only")
		}
		byPlatform[name] = img
	}
	offered := slices.Sorted(maps.Keys(byPlatform))
	var children []Child
	for _, p := range slice.Unique(platforms) {
		img := byPlatform[normal(p)]
		if img == nil {
			return nil, verdict.Refuse(verdict.Platform, p, "the archive has no image for this platform, only for %q", offered)
		}
		delete(byPlatform, normal(p))
		c, err := ociChild(img, p)
		if err != nil {
			return nil, err
		}
		children = append(children, c)
	}
	for _, p := range slices.Sorted(maps.Keys(byPlatform)) {
		return nil, verdict.Refuse(verdict.Platform, p, "the archive contains an image for this platform, but release.yaml does not list it")
	}
	if len(children) == 0 {
		return nil, verdict.Refuse(verdict.Platform, "archive", "the archive contains no image")
	}
	return children, nil
}

// ociChild is an image unchanged, or converted to OCI.
func ociChild(img v1.Image, platform string) (Child, error) {
	goos, arch, _ := strings.Cut(platform, "/")
	below, err := readDocuments(img, Platform{OS: goos, Arch: arch})
	if err != nil {
		return Child{}, err
	}
	c := Child{Platform: platform, Digest: below.digest, Raw: below.raw, ConfigRaw: below.configRaw, Layers: below.layers}
	m := below.manifest
	if m.Subject != nil || m.SchemaVersion != 2 {
		return Child{}, verdict.Refuse(verdict.FileType, platform, "schema version %d, want 2, or the manifest refers to another image", m.SchemaVersion)
	}
	if len(m.Layers) == 0 {
		return Child{}, verdict.Refuse(verdict.FileType, platform, "the image has no layers")
	}
	if !isConfig(m.Config.MediaType) {
		return Child{}, verdict.Refuse(verdict.FileType, platform, "the configuration has type %q, so this is not a container image", m.Config.MediaType)
	}
	if isOCI(m) {
		return c, nil
	}
	if c.Raw, err = json.Marshal(manifestOf(c, m.Annotations)); err != nil {
		return Child{}, fmt.Errorf("encoding manifest for %s: %w", platform, err)
	}
	c.Digest = digest.Of(digest.SHA256, c.Raw)
	return c, nil
}

// isConfig reports whether a type is that of an image's configuration.
func isConfig(t types.MediaType) bool { return t == types.OCIConfigJSON || t == types.DockerConfigJSON }

// isOCI reports whether a manifest has the type with which [Built.Write]
// writes it.
func isOCI(m v1.Manifest) bool {
	docker := func(d v1.Descriptor) bool { return strings.HasPrefix(string(d.MediaType), "application/vnd.docker.") }
	return m.MediaType != types.DockerManifestSchema2 && m.Config.MediaType == types.OCIConfigJSON && !slices.ContainsFunc(m.Layers, docker)
}

func tooManyLayers() error {
	return verdict.Refuse(verdict.Limit, "layers", "more than %d of them", maxLayers)
}

// verifyLayers reads every layer once, and verifies both of its digests. most limits
// the total bytes of all uncompressed layers.
func verifyLayers(ctx context.Context, children []Child, most int64) error {
	seen := map[digest.Digest]digest.Digest{}
	var left atomic.Int64
	left.Store(most)
	layers := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for _, c := range children {
		for _, l := range c.Layers {
			if plain, done := seen[l.Descriptor.Digest]; done && plain == l.DiffID {
				continue
			}
			seen[l.Descriptor.Digest] = l.DiffID
			if layers++; layers > maxLayers {
				return errors.Join(tooManyLayers(), g.Wait())
			}
			g.Go(func() error {
				if err := l.inflated(ctx, &left, func(io.Reader) error { return nil }); err != nil {
					return fmt.Errorf("image for %s: %w", c.Platform, err)
				}
				return nil
			})
		}
	}
	return g.Wait()
}

// listsExactly reports whether an index lists exactly these children, with these
// platforms.
func listsExactly(raw []byte, children []Child) bool {
	var index v1.IndexManifest
	if raw == nil || decodeStrict(raw, &index) != nil || len(index.Manifests) != len(children) ||
		index.MediaType == types.DockerManifestList || index.SchemaVersion != 2 || index.Subject != nil {
		return false
	}
	for _, c := range children {
		if !slices.ContainsFunc(index.Manifests, func(d v1.Descriptor) bool {
			return d.Digest == hash(c.Digest) && d.MediaType == types.OCIManifestSchema1 && d.Platform != nil && d.Platform.String() == c.Platform
		}) {
			return false
		}
	}
	return true
}
