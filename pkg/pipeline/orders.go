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

// kindCounts counts things by kind, in the order in which the kinds occur.
type kindCounts []KindCount

func (h *kindCounts) count(kind string, signed bool) {
	i := slices.IndexFunc(*h, func(h KindCount) bool { return h.Kind == kind })
	if i < 0 {
		i, *h = len(*h), append(*h, KindCount{Kind: kind, legacy: slices.Contains([]string{legacyForm, legacyTag, legacySBOM}, kind)})
	}
	if signed {
		(*h)[i].Signed++
	} else {
		(*h)[i].Due++
	}
}

// oneOf is one thing of a kind, which is always signed.
func oneOf(kind string) func(context.Context, *outlook) ([]KindCount, []sign.Order) {
	return func(context.Context, *outlook) ([]KindCount, []sign.Order) {
		return []KindCount{{Kind: kind, Due: 1}}, nil
	}
}

func manifestOf(_ context.Context, o *outlook) ([]KindCount, []sign.Order) {
	var list kindCounts
	list.count("release manifest", o.Sealed)
	return list, nil
}

// provenanceOf is the provenance of the steps, in each planned form. Existing
// provenance counts if the builder signed it in this release's run; the build
// additionally compares it with the inputs and outputs of the step.
func provenanceOf(ctx context.Context, o *outlook) ([]KindCount, []sign.Order) {
	var list kindCounts
	for _, a := range provenances(o.plan) {
		list.count(string(a.Class), o.w != nil && o.attested(ctx, a.Name))
	}
	return list, nil
}

// attested reports whether there is a bundle that the builder signed in this
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

// signaturesOf is every planned file and image, in each planned form.
func signaturesOf(_ context.Context, o *outlook) ([]KindCount, []sign.Order) {
	var list kindCounts
	in := func(all []plan.Artifact, name string) bool {
		return slices.ContainsFunc(all, func(a plan.Artifact) bool { return a.Name == name })
	}
	for _, a := range o.plan.Artifacts {
		_, legacy := a.SignedBySig()
		switch {
		case a.IsStatement():
			list.count("statement", o.Sealed)
		case a.IsSBOMList():
			list.count("list of SBOMs", in(o.Signed, a.Name))
		case legacy:
			list.count(legacyForm, in(o.Signed, a.Name))
		case a.IsLegacy():
		case a.Class == plan.Signature:
			of, _ := o.plan.Find(a.Of)
			list.count(string(of.Class), in(o.Signed, of.Name))
		case a.IsImage():
			index, _ := o.plan.Find(a.Of)
			described := a.Has(plan.KindSBOM) && a.Class == plan.Image || a.Class == plan.ImageChild && index.Has(plan.KindSBOM)
			list.count(string(a.Class), in(o.Signed, a.Name))
			if described {
				list.count(documents, in(o.Signed, a.Name))
			}
			if o.plan.Legacy() {
				list.count(legacyTag, in(o.Attached, a.Name))
			}
			if o.plan.Legacy() && described {
				list.count(legacySBOM, in(o.Attached, a.Name))
			}
		}
	}
	return list, o.Orders
}
