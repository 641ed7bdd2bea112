package sbom

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The annotations and labels by which an image names its base image.
const (
	baseName   = "org.opencontainers.image.base.name"
	baseDigest = "org.opencontainers.image.base.digest"
)

// imageConfig is the part of a configuration that is used.
type imageConfig struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant"`
	Config       struct {
		Labels map[string]string `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// FromRegistry returns the content of an image from its graph. Layers are read
// from src when they are examined; attestations that build tools put into an
// index are left out.
func FromRegistry(ctx context.Context, src registry.Source, repo string, node *registry.Node) (ImageContent, error) {
	c := ImageContent{Index: digest.SetOf(node.Raw), Repository: repo}
	for _, n := range node.Images() {
		p, err := fromNode(ctx, src, repo, n)
		if err != nil {
			return ImageContent{}, err
		}
		c.Platforms = append(c.Platforms, p)
	}
	return c, nil
}

func fromNode(ctx context.Context, src registry.Source, repo string, n *registry.Node) (ImagePlatform, error) {
	if kind := n.Config.MediaType; kind != "" && !isImageType(kind) {
		return ImagePlatform{}, verdict.Refuse(verdict.FileType, n.Descriptor.Digest.String(), "not an image: its configuration has the media type %.200q", kind).
			Advise("name an image; pull other registry content and describe it as a file")
	}
	raw, err := registry.Read(ctx, src, repo, n.Config, registry.MaxManifest)
	if err != nil {
		return ImagePlatform{}, err
	}
	config, err := parseConfig(raw)
	if err != nil {
		return ImagePlatform{}, badConfig(n.Config.Digest, err)
	}
	p := ImagePlatform{Platform: n.Descriptor.Platform, Digest: n.Descriptor.Digest, Config: n.Config.Digest, strong: digest.SetOf(n.Raw).SHA512}
	var manifest struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := strictjson.UnmarshalOpen(n.Raw, &manifest); err != nil {
		return ImagePlatform{}, err
	}
	p.Base = baseOf(manifest.Annotations, config.Config.Labels)
	for _, l := range n.Layers {
		p.Layers = append(p.Layers, Layer{Digest: l.Digest, Open: func(ctx context.Context) (io.ReadCloser, error) {
			return src.Fetch(ctx, repo, l)
		}})
	}
	return p.configured(config, "manifest")
}

// configured adds what the configuration says: the platform, if it is not known
// otherwise, and the digests of the uncompressed layers.
func (p ImagePlatform) configured(c imageConfig, listed string) (ImagePlatform, error) {
	if p.Platform == "" {
		p.Platform = c.platform()
	}
	if len(c.RootFS.DiffIDs) != len(p.Layers) {
		return ImagePlatform{}, verdict.Refuse(verdict.Conflict, p.identity().String(),
			"the number of layers differs: %d in the %s, %d in the configuration", len(p.Layers), listed, len(c.RootFS.DiffIDs))
	}
	for i, text := range c.RootFS.DiffIDs {
		diff, err := digest.Parse(text)
		if err != nil {
			return ImagePlatform{}, badConfig(p.Config, err)
		}
		p.Layers[i].DiffID = diff
		if p.Layers[i].Digest.IsZero() { // layers of a saved image have no compressed digest
			p.Layers[i].Digest = diff
		}
	}
	return p, nil
}

func parseConfig(raw []byte) (c imageConfig, err error) {
	return c, strictjson.UnmarshalOpen(raw, &c)
}

func (c imageConfig) platform() string {
	if c.OS == "" || c.Architecture == "" {
		return "unknown/unknown"
	}
	if c.Variant != "" {
		return c.OS + "/" + c.Architecture + "/" + c.Variant
	}
	return c.OS + "/" + c.Architecture
}

// baseOf returns the base image, if the image names it by digest.
func baseOf(places ...map[string]string) string {
	for _, m := range places {
		if m[baseName] != "" && m[baseDigest] != "" {
			return m[baseName] + "@" + m[baseDigest]
		}
	}
	return ""
}

func badConfig(config digest.Digest, err error) error {
	return verdict.Wrap(verdict.FileType, "configuration "+config.String(), err).Advise("the configuration is damaged or not that of an image; build and push the image again")
}

func platformsOf(c ImageContent) string {
	return strings.Join(slice.Map(c.Platforms, func(p ImagePlatform) string { return clean(p.Platform) }), ", ")
}

// Only keeps one platform; the document is then about that image.
func (c ImageContent) Only(platform string) (ImageContent, error) {
	at := slices.IndexFunc(c.Platforms, func(p ImagePlatform) bool { return p.Platform == platform })
	if at < 0 {
		return ImageContent{}, verdict.Refuse(verdict.Platform, clean(platform), "the image lacks this platform; available: %s", platformsOf(c)).
			Advise("choose an available platform: " + platformsOf(c))
	}
	c.Platforms = c.Platforms[at : at+1]
	c.Index = digest.Set{SHA256: c.Platforms[0].identity(), SHA512: c.Platforms[0].strong}
	return c, nil
}
