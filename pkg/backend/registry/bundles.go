package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits on the evidence read for one manifest: the manifests that refer to it,
// and the bundles that they name. The smallest are read first, so bundles of up
// to alwaysRead bytes are read, or refused with their manifest, even if others
// attach large ones.
const (
	maxBundles     = 1000
	maxBundleBytes = 32 << 20
	alwaysRead     = maxBundleBytes / maxBundles
)

// Target is a manifest that evidence refers to.
type Target struct {
	Source     Source
	Repository string
	Digest     digest.Digest
}

// Graph reads the manifest that a tag or digest of the repository names, and all
// below it, as the function [Graph] does.
func (t Target) Graph(ctx context.Context, reference string) (*Node, error) {
	d, err := t.Source.Resolve(ctx, t.Repository, reference)
	if err != nil {
		return nil, err
	}
	return Graph(ctx, t.Source, t.Repository, d)
}

// Heard counts the evidence that refers to a manifest.
type Heard struct {
	Bundles int
	// Unread is how many were not read, because they are too many or too large
	// together.
	Unread int
}

// EachBundle reads the Sigstore bundles that refer to a manifest, smallest
// first, and passes them to take one at a time. They are not parsed yet, and
// anyone may attach anything, so take must not retain the bytes of invalid
// bundles. Referrers of other kinds are dropped before anything is counted;
// with kinds, so are bundles annotated with another predicate type. The
// annotations of the referrer are unsigned hints.
func EachBundle(ctx context.Context, of Target, take func(referrer Descriptor, raw []byte), kinds ...string) (Heard, error) {
	src, repo, d := of.Source, of.Repository, of.Digest
	referrers, err := BundleReferrers(ctx, src, repo, d)
	if err != nil {
		return Heard{}, err
	}
	referrers = slices.DeleteFunc(referrers, func(r Descriptor) bool {
		says := r.Annotations[annotationPredicate]
		return says != "" && len(kinds) > 0 && !slices.Contains(kinds, says)
	})
	bySize(referrers)
	most := min(len(referrers), maxBundles)
	if most < len(referrers) && claimedSize(referrers[most]) <= alwaysRead {
		return Heard{}, tooLarge(repo, "bundles of one image", maxBundles)
	}
	heard, r := Heard{Unread: len(referrers) - most}, reading{Target: of, manifests: maxBundleBytes, bundles: maxBundleBytes}
	count := func(err error) error {
		var down *verdict.UnavailableError
		switch {
		case errors.As(err, &down):
			return err
		case errors.Is(err, errTooMany):
			heard.Unread++
		} // other errors: anyone can push a broken referrer, so it is skipped
		return nil
	}
	var bundles []located
	for _, referrer := range referrers[:most] {
		b, err := r.locate(ctx, referrer)
		if err == nil {
			bundles = append(bundles, b)
		} else if err := count(err); err != nil {
			return Heard{}, err
		}
	}
	slices.SortStableFunc(bundles, func(a, b located) int { return cmp.Compare(a.layer.Size, b.layer.Size) })
	for _, b := range bundles {
		raw, err := r.bundle(ctx, b)
		if err == nil {
			heard.Bundles++
			take(b.referrer, raw)
		} else if err := count(err); err != nil {
			return Heard{}, err
		}
	}
	return heard, nil
}

// bySize sorts by claimed size, smallest first.
func bySize(referrers []Descriptor) {
	slices.SortStableFunc(referrers, func(a, b Descriptor) int { return cmp.Compare(claimedSize(a), claimedSize(b)) })
}

// claimedSize is the size that a referrer claims for its bundle, or else its
// manifest's.
func claimedSize(r Descriptor) int64 {
	if layer, named := annotatedLayer(r); named {
		return layer.Size
	}
	return r.Size
}

// Bundles returns the Sigstore bundles that refer to a manifest, as
// [EachBundle] reads them, for callers that need all of them.
func Bundles(ctx context.Context, src Source, repo string, d digest.Digest, kinds ...string) (all [][]byte, err error) {
	heard, err := EachBundle(ctx, Target{src, repo, d}, func(_ Descriptor, raw []byte) { all = append(all, raw) }, kinds...)
	switch {
	case err != nil:
		return nil, err
	case heard.Unread > 0:
		return nil, tooLarge(repo, "bytes of the bundles of one image", maxBundleBytes)
	}
	return all, nil
}

// BundleReferrers lists the referrers that are bundles, as the source describes
// them. If a list of all is too long, the registry is asked for bundles alone:
// flooding an image with other referrers hides nothing.
func BundleReferrers(ctx context.Context, src Source, repo string, d digest.Digest) ([]Descriptor, error) {
	all, err := listReferrers(ctx, src, repo, d)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(r Descriptor) bool { return r.ArtifactType != mediaTypeBundle }), nil
}

// listReferrers lists all referrers, or only the bundles if a list of all is
// too long.
func listReferrers(ctx context.Context, src Source, repo string, d digest.Digest) ([]Descriptor, error) {
	all, err := src.Referrers(ctx, repo, d)
	if filter, can := src.(interface {
		ReferrersOf(ctx context.Context, repo string, d digest.Digest, kind string) ([]Descriptor, error)
	}); can && err != nil && verdict.FindingOf("", err).Code == verdict.Limit {
		return filter.ReferrersOf(ctx, repo, d, mediaTypeBundle)
	}
	return all, err
}

// errTooMany says that a bundle was left out after all the others.
var errTooMany = errors.New("the byte limit was spent on other bundles")

// reading counts how much evidence about one manifest may still be read.
type reading struct {
	Target
	manifests, bundles int64 // bytes left for each kind
}

// located is a bundle that a referrer names, in a hint or in its manifest.
type located struct {
	referrer, layer Descriptor
	hinted          bool
}

// spend subtracts the size of d from what is left.
func spend(left *int64, d Descriptor) error {
	if d.Size > *left {
		return errTooMany
	}
	*left -= max(d.Size, 0)
	return nil
}

func (r *reading) locate(ctx context.Context, referrer Descriptor) (located, error) {
	layer, hinted := annotatedLayer(referrer)
	var err error
	if !hinted {
		layer, err = r.layer(ctx, referrer)
	}
	return located{referrer, layer, hinted}, err
}

// bundle reads a bundle. A hint that leads nowhere is ignored.
func (r *reading) bundle(ctx context.Context, b located) ([]byte, error) {
	raw, err := r.fetch(ctx, b.layer)
	if _, is := errors.AsType[*verdict.UnavailableError](err); err == nil || !b.hinted || is || errors.Is(err, errTooMany) {
		return raw, err
	}
	layer, err := r.layer(ctx, b.referrer)
	if err != nil {
		return nil, err
	}
	return r.fetch(ctx, layer)
}

func (r *reading) fetch(ctx context.Context, layer Descriptor) ([]byte, error) {
	if err := spend(&r.bundles, layer); err != nil {
		return nil, err
	}
	body, err := r.Source.Fetch(ctx, r.Repository, layer)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+max(0, layer.Size))) // at most MaxManifest
	_, err = raw.ReadFrom(body)
	return raw.Bytes(), err
}

// layer returns the one layer of a referrer's manifest.
func (r *reading) layer(ctx context.Context, referrer Descriptor) (Descriptor, error) {
	if referrer.IsIndex() {
		return Descriptor{}, tooLarge(r.Repository, "manifests of a bundle", 1)
	}
	if err := spend(&r.manifests, referrer); err != nil {
		return Descriptor{}, err
	}
	node, err := Graph(ctx, r.Source, r.Repository, referrer)
	if err != nil {
		return Descriptor{}, err
	}
	if len(node.Layers) != 1 || node.Layers[0].Size > MaxManifest {
		return Descriptor{}, tooLarge(r.Repository, "layers or size of a bundle", MaxManifest)
	}
	return node.Layers[0], nil
}

// annotatedLayer returns the layer that a referrer's annotation names.
func annotatedLayer(referrer Descriptor) (Descriptor, bool) {
	text, count, _ := strings.Cut(referrer.Annotations[annotationLayer], " ")
	named, err := digest.Parse(text)
	if err != nil || named.Algorithm() != digest.SHA256 {
		return Descriptor{}, false
	}
	size, err := strconv.ParseInt(count, 10, 64)
	return Descriptor{MediaType: mediaTypeBundle, Digest: named, Size: size}, err == nil && size > 0 && size <= MaxManifest
}
