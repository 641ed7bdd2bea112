package registry

import (
	"context"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// ReferringBundle is a bundle with the manifest by which it refers to a
// subject. Its annotations are unsigned hints.
type ReferringBundle struct {
	Descriptor Descriptor
	Bytes      []byte
}

// Referring is [Bundles] with the annotations of each.
func Referring(ctx context.Context, src Source, repo string, d digest.Digest, kinds ...string) ([]ReferringBundle, error) {
	var all []ReferringBundle
	heard, err := eachBundle(ctx, Target{src, repo, d}, func(referrer Descriptor, raw []byte) {
		all = append(all, ReferringBundle{referrer, raw})
	}, kinds...)
	switch {
	case err != nil:
		return nil, err
	case heard.Unread > 0:
		return nil, &LimitError{Place: repo, What: "bytes of the bundles of one image", Limit: maxBundleBytes}
	}
	return all, nil
}

// BundleReferrers lists the referrers that are bundles, as the source describes
// them. If a list of all is too long, the registry is asked for bundles alone.
func BundleReferrers(ctx context.Context, src Source, repo string, d digest.Digest) ([]Descriptor, error) {
	return bundleReferrers(ctx, src, repo, d)
}
