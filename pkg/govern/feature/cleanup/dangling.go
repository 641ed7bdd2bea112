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

// ReferrersLeft counts what is left of attaching evidence as referrers once that
// is Off: bundles that no tag attaches, and what points at nothing any more: a
// tag for evidence about a digest that is gone, a referrer whose image is gone,
// and a list of referrers that names a manifest which is not there.
func (s *Sweeps) ReferrersLeft() reconcile.Counter {
	return counter{Sweeps: s, whole: broken, visit: func(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
		list, err := p.unwritten(ctx, image.Digest)
		for _, u := range list {
			t.add("%s: %s by %s, which no tag attaches", p.named(image.Digest), u.evidence.Kind(), policy.Who(u.evidence))
		}
		return err
	}}
}

// broken takes the census of what the repository points at.
func broken(p *place, t *tally) {
	var want, have []census.Item
	seen := map[string]bool{}
	for _, at := range p.points {
		if seen[at.from] {
			continue // a list may name something twice
		}
		seen[at.from] = true
		item := census.Item{Name: at.from, Digests: digest.Set{SHA256: at.to}}
		want = append(want, item)
		if p.there[at.to] {
			have = append(have, item)
		}
	}
	for _, f := range census.Compare(want, have) {
		t.add("%s points at %s, which is not there", f.Subject, f.Want)
	}
}

// same reports whether two layers of a tag are one.
func same(a, b oci.Signature) bool {
	one, _ := a.Annotations() // what was read or made gives no error
	two, _ := b.Annotations()
	of, _ := a.Payload()
	other, _ := b.Payload()
	return bytes.Equal(of, other) && maps.Equal(one, two)
}
