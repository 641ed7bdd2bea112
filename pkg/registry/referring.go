package registry

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/digest"
)

// ReferringBundle is a bundle with the manifest by which it refers to something: its
// annotations are hints, which anybody may have written.
type ReferringBundle struct {
	Descriptor Descriptor
	Bytes      []byte
}

// Referring is [Bundles] with what is annotated to each.
func Referring(ctx context.Context, src Source, repo string, d digest.Digest) ([]ReferringBundle, error) {
	referrers, err := bundleReferrers(ctx, src, repo, d)
	if err != nil {
		return nil, err
	}
	if len(referrers) > maxBundles {
		return nil, &LimitError{Place: repo, What: "bundles of one image", Limit: maxBundles}
	}
	var all []ReferringBundle
	left := int64(maxBundleBytes)
	for _, r := range referrers {
		raw, err := bundle(ctx, src, repo, r, &left)
		var down *UnavailableError
		if errors.As(err, &down) {
			return nil, err
		}
		if errors.Is(err, errTooMany) {
			return nil, &LimitError{Place: repo, What: "bytes of the bundles of one image", Limit: maxBundleBytes}
		}
		if err != nil {
			continue // as for [Bundles]
		}
		all = append(all, ReferringBundle{r, raw})
	}
	return all, nil
}

// BundleReferrers lists the referrers that are bundles, as the source describes
// them. Where a list of all is too long, the registry is asked for these alone.
func BundleReferrers(ctx context.Context, src Source, repo string, d digest.Digest) ([]Descriptor, error) {
	return bundleReferrers(ctx, src, repo, d)
}
