package registry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
)

// What is read of the evidence about one manifest, at most. The smallest are
// read first, so whatever strangers attach, a bundle of up to
// maxBundleBytes/maxBundles bytes (32 KiB) is always read or its manifest refused.
const (
	maxBundles     = 1000
	maxBundleBytes = 32 << 20
)

// Target is a manifest that evidence refers to.
type Target struct {
	Source     Source
	Repository string
	Digest     digest.Digest
}

// Heard says how much evidence refers to a manifest.
type Heard struct {
	Bundles int
	// Unread are those that were not read, because all together are too large.
	Unread int
}

// EachBundle reads the Sigstore bundles that refer to a manifest, the smallest
// first, and gives each to take, one at a time. They are parsed by nobody yet:
// anybody may attach anything, so whoever takes one keeps no bytes of what does
// not hold. Referrers of other kinds are left out before anything is counted,
// and with kinds so are bundles that are annotated as saying something else.
func EachBundle(ctx context.Context, of Target, take func(raw []byte), kinds ...string) (Heard, error) {
	src, repo, d := of.Source, of.Repository, of.Digest
	referrers, err := bundleReferrers(ctx, src, repo, d)
	if err != nil {
		return Heard{}, err
	}
	referrers = slices.DeleteFunc(referrers, func(r Descriptor) bool {
		says := r.Annotations[AnnotationPredicate]
		return says != "" && len(kinds) > 0 && !slices.Contains(kinds, says)
	})
	if len(referrers) > maxBundles {
		return Heard{}, &LimitError{Place: repo, What: "bundles of one image", Limit: maxBundles}
	}
	bySize(referrers)
	heard, left := Heard{}, int64(maxBundleBytes)
	for _, r := range referrers {
		raw, err := bundle(ctx, src, repo, r, &left)
		var down *UnavailableError
		switch {
		case errors.As(err, &down):
			return Heard{}, err
		case errors.Is(err, errTooMany):
			heard.Unread++
		case err == nil: // else a stranger's broken referrer, which must not stand in our way
			heard.Bundles++
			take(raw)
		}
	}
	return heard, nil
}

// bySize puts the smallest bundles first.
func bySize(referrers []Descriptor) {
	slices.SortStableFunc(referrers, func(a, b Descriptor) int { return cmp.Compare(claimedSize(a), claimedSize(b)) })
}

// claimedSize is how much a referrer says that its bundle has, or else its
// manifest.
func claimedSize(r Descriptor) int64 {
	if layer, named := annotatedLayer(r); named {
		return layer.Size
	}
	return r.Size
}

// Bundles returns the Sigstore bundles that refer to a manifest, as
// [EachBundle] reads them. It is for those who need all of them.
func Bundles(ctx context.Context, src Source, repo string, d digest.Digest, kinds ...string) ([][]byte, error) {
	var bundles [][]byte
	heard, err := EachBundle(ctx, Target{src, repo, d}, func(raw []byte) { bundles = append(bundles, raw) }, kinds...)
	if err != nil {
		return nil, err
	}
	if heard.Unread > 0 {
		return nil, &LimitError{Place: repo, What: "bytes of the bundles of one image", Limit: maxBundleBytes}
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

// errTooMany says that a bundle is not read after all the others.
var errTooMany = errors.New("there are too many bytes of others")

// bundle reads the bundle of a referrer: the layer that an annotation names,
// or else the one layer of its manifest. What is read is taken from left.
func bundle(ctx context.Context, src Source, repo string, referrer Descriptor, left *int64) ([]byte, error) {
	take := func(d Descriptor) error {
		if d.Size > *left {
			return errTooMany
		}
		*left -= max(d.Size, 0)
		return nil
	}
	if layer, named := annotatedLayer(referrer); named {
		if err := take(layer); err != nil {
			return nil, err
		}
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
	if referrer.IsIndex() {
		return nil, &LimitError{Place: repo, What: "manifests of a bundle", Limit: 1}
	}
	if err := take(referrer); err != nil {
		return nil, err
	}
	node, err := Graph(ctx, src, repo, referrer)
	if err != nil {
		return nil, err
	}
	if len(node.Layers) != 1 || node.Layers[0].Size > MaxManifest {
		return nil, &LimitError{Place: repo, What: "layers or size of a bundle", Limit: MaxManifest}
	}
	if err := take(node.Layers[0]); err != nil {
		return nil, err
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
