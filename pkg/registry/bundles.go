package registry

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
)

// maxBundles bounds how many pieces of evidence about one manifest are read.
const maxBundles = 1000

// Bundles returns the Sigstore bundles that refer to a manifest, in the order
// of their digests. They are parsed by nobody yet: anybody may attach
// anything. Referrers of other kinds are left out before anything is counted,
// and with kinds so are bundles that are annotated as saying something else.
func Bundles(ctx context.Context, src Source, repo string, d digest.Digest, kinds ...string) ([][]byte, error) {
	referrers, err := bundleReferrers(ctx, src, repo, d)
	if err != nil {
		return nil, err
	}
	var bundles [][]byte
	read := 0
	for _, r := range referrers {
		if says := r.Annotations[AnnotationPredicate]; says != "" && len(kinds) > 0 && !slices.Contains(kinds, says) {
			continue
		}
		if read++; read > maxBundles {
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

// bundleReferrers lists the referrers that are bundles. Where there are so many
// of other kinds that a list of all is too long, the registry is asked for
// these alone: whoever floods an image with something else hides nothing.
func bundleReferrers(ctx context.Context, src Source, repo string, d digest.Digest) ([]Descriptor, error) {
	all, err := listReferrers(ctx, src, repo, d)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(r Descriptor) bool { return r.ArtifactType != MediaTypeBundle }), nil
}

// listReferrers lists the referrers, or the bundles among them where a list of
// all is too long.
func listReferrers(ctx context.Context, src Source, repo string, d digest.Digest) ([]Descriptor, error) {
	all, err := src.Referrers(ctx, repo, d)
	var long *LimitError
	if filter, can := src.(interface {
		ReferrersOf(ctx context.Context, repo string, d digest.Digest, kind string) ([]Descriptor, error)
	}); can && errors.As(err, &long) {
		return filter.ReferrersOf(ctx, repo, d, MediaTypeBundle)
	}
	return all, err
}

// bundle reads the bundle of a referrer: the layer that an annotation names,
// or else the one layer of its manifest.
func bundle(ctx context.Context, src Source, repo string, referrer Descriptor) ([]byte, error) {
	if layer, named := annotatedLayer(referrer); named {
		body, err := src.Fetch(ctx, repo, layer)
		var raw []byte
		if err == nil {
			raw, err = fetchAll(body)
		}
		var down *UnavailableError
		if err == nil || errors.As(err, &down) {
			return raw, err
		}
	}
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

// annotatedLayer is the layer that a referrer's annotation names.
func annotatedLayer(referrer Descriptor) (Descriptor, bool) {
	text, count, _ := strings.Cut(referrer.Annotations[AnnotationLayer], " ")
	named, err := digest.Parse(text)
	if err != nil || named.Algorithm() != digest.SHA256 {
		return Descriptor{}, false
	}
	size, err := strconv.ParseInt(count, 10, 64)
	return Descriptor{MediaType: MediaTypeBundle, Digest: named, Size: size}, err == nil && size > 0 && size <= MaxManifest
}
