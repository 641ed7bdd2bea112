package pipeline

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// heaps counts things by kind, in the order in which the kinds come.
type heaps []Heap

func (h *heaps) put(kind string, signed bool) {
	i := slices.IndexFunc(*h, func(h Heap) bool { return h.Kind == kind })
	if i < 0 {
		i, *h = len(*h), append(*h, Heap{Kind: kind, legacy: slices.Contains([]string{legacyForm, legacyTag, legacySBOM}, kind)})
	}
	if signed {
		(*h)[i].Signed++
	} else {
		(*h)[i].Due++
	}
}

// oneOf is one thing of a kind, which is signed whatever is there.
func oneOf(kind string) func(context.Context, *outlook) ([]Heap, []sign.Order) {
	return func(context.Context, *outlook) ([]Heap, []sign.Order) { return []Heap{{Kind: kind, Due: 1}}, nil }
}

// manifestOf is the release manifest.
func manifestOf(_ context.Context, o *outlook) ([]Heap, []sign.Order) {
	var list heaps
	list.put("release manifest", o.Sealed)
	return list, nil
}

// provenanceOf is the steps' provenance, in each form that is planned. What is
// there counts if the builder signed it in this release's run; the build also
// holds it against what the step took and made.
func provenanceOf(ctx context.Context, o *outlook) ([]Heap, []sign.Order) {
	var list heaps
	for _, a := range provenances(o.plan) {
		list.put(string(a.Class), o.w != nil && o.attested(ctx, a.Name))
	}
	return list, nil
}

// attested reports whether a bundle is there that the builder signed in this
// release's run.
func (o *outlook) attested(ctx context.Context, name string) bool {
	raw, err := store.Read(ctx, o.w.Files(), name, verify.MaxBundle)
	if err != nil {
		return false
	}
	e, err := o.verifier.Attestation(raw)
	if err != nil {
		return false
	}
	said, err := provenance.Parse(e.Statement())
	if err != nil || said.RunDetails.Metadata.InvocationID != o.w.Identity().Invocation {
		return false
	}
	role, err := o.Profile.Policy.Acts(e, policy.Question{Stage: policy.Staging, Subject: name})
	return err == nil && role == policy.Builder
}

// signaturesOf is every planned file and image, in each form that is planned.
func signaturesOf(_ context.Context, o *outlook) ([]Heap, []sign.Order) {
	var list heaps
	in := func(all []plan.Artifact, name string) bool {
		return slices.ContainsFunc(all, func(a plan.Artifact) bool { return a.Name == name })
	}
	for _, a := range o.plan.Artifacts {
		_, legacy := a.SignedBySig()
		switch {
		case a.IsStatement():
			list.put("statement", o.Sealed)
		case legacy:
			list.put(legacyForm, in(o.Signed, a.Name))
		case a.IsLegacy():
		case a.Class == plan.Signature:
			of, _ := o.plan.Find(a.Of)
			list.put(string(of.Class), in(o.Signed, of.Name))
		case a.IsImage():
			index, _ := o.plan.Find(a.Of)
			described := a.Has(plan.KindSBOM) && a.Class == plan.Image || a.Class == plan.ImageChild && index.Has(plan.KindSBOM)
			list.put(string(a.Class), in(o.Signed, a.Name))
			if described {
				list.put(documents, in(o.Signed, a.Name))
			}
			if o.plan.Legacy() {
				list.put(legacyTag, in(o.Attached, a.Name))
			}
			if o.plan.Legacy() && described {
				list.put(legacySBOM, in(o.Attached, a.Name))
			}
		}
	}
	return list, o.Orders
}
