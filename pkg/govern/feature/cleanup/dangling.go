package cleanup

import (
	"bytes"
	"context"
	"maps"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// ReferrersLeft counts what remains of evidence as referrers after the feature is
// Off: bundles that no tag attaches, and dangling pointers: an evidence tag for a
// digest that is gone, a referrer whose image is gone, and a list of referrers with a
// manifest that does not exist.
func (s *Sweeps) ReferrersLeft() reconcile.Counter {
	return counter{Sweeps: s, whole: broken, visit: func(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
		list, err := p.unwritten(ctx, image.Digest)
		for _, u := range list {
			t.add("%s: %s by %s, not attached by a tag", p.named(image.Digest), u.evidence.Kind(), policy.Who(u.evidence))
		}
		return err
	}}
}

// broken counts the pointers to digests that do not exist in the repository.
func broken(p *place, t *tally) {
	var want, have []census.Item
	seen := map[string]bool{}
	for _, at := range p.points {
		if seen[at.from] {
			continue // a list may name a manifest twice
		}
		seen[at.from] = true
		item := census.Item{Name: at.from, Digests: digest.Set{SHA256: at.to}}
		want = append(want, item)
		if p.there[at.to] {
			have = append(have, item)
		}
	}
	for _, f := range census.Compare(want, have) {
		t.add("%s points to %s, which does not exist", f.Subject, f.Want)
	}
}

// same reports whether two layers of a tag are equal.
func same(a, b oci.Signature) bool {
	one, _ := a.Annotations() // a layer that was read or made returns no error
	two, _ := b.Annotations()
	of, _ := a.Payload()
	other, _ := b.Payload()
	return bytes.Equal(of, other) && maps.Equal(one, two)
}
