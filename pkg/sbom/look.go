package sbom

import (
	"context"
	"io"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
)

// Look examines the contents of artifacts while a release is verified.
type Look struct {
	// Layers caches layers across images, if it is not nil.
	Layers *Layers
}

// File is [Within] for a stream.
func (Look) File(ctx context.Context, a sbomcheck.Artifact, body io.Reader) (sbomcheck.Found, error) {
	content, done, err := Readable(body)
	if err != nil {
		return sbomcheck.Found{}, err
	}
	defer done()
	return Within(ctx, a, content)
}

// Image is [WithinImage] for an image in a registry.
func (l Look) Image(ctx context.Context, a sbomcheck.Artifact, src registry.Source, repo string, node *registry.Node) (sbomcheck.Found, error) {
	content, err := FromRegistry(ctx, src, repo, node)
	if err != nil {
		return sbomcheck.Found{}, err
	}
	content.Layers = l.Layers
	return WithinImage(ctx, a, content)
}
