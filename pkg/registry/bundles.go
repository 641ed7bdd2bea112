package registry

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/digest"
)

// maxBundles bounds how many pieces of evidence about one manifest are read.
const maxBundles = 1000

// Bundles returns the Sigstore bundles that refer to a manifest, in the order
// of their digests. They are parsed by nobody yet: anybody may attach
// anything. Referrers of other kinds are left out.
func Bundles(ctx context.Context, src Source, repo string, d digest.Digest) ([][]byte, error) {
	referrers, err := src.Referrers(ctx, repo, d)
	if err != nil {
		return nil, err
	}
	var bundles [][]byte
	for _, r := range referrers {
		if r.ArtifactType != MediaTypeBundle {
			continue
		}
		if len(bundles) == maxBundles {
			return nil, &LimitError{Place: repo, What: "bundles of one image", Limit: maxBundles}
		}
		raw, err := bundle(ctx, src, repo, r)
		var down *UnavailableError
		if errors.As(err, &down) {
			return nil, err
		}
		if err != nil {
			continue // a stranger's broken referrer must not stand in our way
		}
		bundles = append(bundles, raw)
	}
	return bundles, nil
}

// bundle reads the one layer of a referrer.
func bundle(ctx context.Context, src Source, repo string, referrer Descriptor) ([]byte, error) {
	node, err := Graph(ctx, src, repo, referrer)
	if err != nil {
		return nil, err
	}
	if len(node.Layers) != 1 || node.Layers[0].Size > MaxManifest {
		return nil, &LimitError{Place: repo, What: "layers or size of a bundle", Limit: MaxManifest}
	}
	body, err := src.Fetch(ctx, repo, node.Layers[0])
	if err != nil {
		return nil, err
	}
	return fetchAll(body)
}
