package gate

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/waiver"
)

// unnamed is what evidence that binds a digest alone leaves open.
const unnamed = "its name and tag: what was verified names bytes alone"

// Image decides about an image: the index, and every manifest in it. The
// registry is asked each thing once.
func (r PolicyRequest) Image(ctx context.Context, image Image) *verdict.Verdict {
	image, done := remembered(image)
	defer done()
	defer image.ahead(ctx)()
	v := r.start("image "+image.Name, plan.Image, plan.ImageChild)
	v.Scope.Left = append(v.Scope.Left, unnamed)
	v.Counts.Required = 0
	nodes, err := image.graph(ctx)
	if err != nil {
		v.Counts.Required++
		v.AddError(image.Name, err)
		return v
	}
	judged := map[string]bool{}
	var subjects []waiver.Subject
	for i, n := range nodes {
		class := plan.ImageChild
		if i == 0 {
			class = plan.Image
		}
		if err := registry.CheckPlatform(ctx, image.Source, image.Repository, n); err != nil {
			v.Counts.Required++
			v.AddError(image.name(n.Descriptor), err)
			continue
		}
		if d := n.Descriptor.Digest; !judged[d.String()] {
			judged[d.String()] = true
			subjects = append(subjects, waiver.Subject{Name: image.Repository + "@" + d.String(), Digests: digest.SetOf(n.Raw), Destination: image.To})
			r.manifest(ctx, v, image, class, n)
		}
	}
	ofAll(v, len(judged))
	checkClock(v)
	r.waive(v, subjects...)
	besides(v)
	return v
}

// besides holds what is set aside to this: an exception says that one thing is
// absent, and something else about the manifest is proven all the same. That
// counts where nothing else was verified.
func besides(v *verdict.Verdict) {
	if len(v.Findings) > 0 {
		return
	}
	for _, w := range v.Waived {
		name := w.Finding.Subject
		if slices.ContainsFunc(v.Proofs, func(p verdict.Proof) bool { return p.Subject == name && p.Role != string(policy.Officer) }) {
			continue
		}
		f := verdict.Find(verdict.EvidenceMissing, name, "%s is set aside, and nothing else about it is proven", w.Finding.Code)
		f.Fix = "sign it, or build it where its provenance is signed"
		v.Add(f)
	}
	if len(v.Waived) > 0 && len(v.Findings) == 0 && v.Counts.Verified == 0 {
		v.Counts.Required++
		v.Counts.Verified++
	}
}

// manifest asks the policy about one manifest, with everything that refers to
// it and holds. What does not hold is somebody else's, and counts for nothing.
func (r PolicyRequest) manifest(ctx context.Context, v *verdict.Verdict, image Image, class plan.Class, n *registry.Node) {
	d := n.Descriptor.Digest
	name := image.Repository + "@" + d.String()
	q := r.question(class, name, digest.SetOf(n.Raw)) // a statement may give digests of several kinds, and each must hold
	q.ByDigest = true
	a, err := readAttached(ctx, r.Verifier, registry.Target{Source: image.Source, Repository: image.Repository, Digest: d})
	if err != nil {
		v.Counts.Required++
		v.AddError(name, err)
		return
	}
	a.note(v, name)
	evidence := a.holds
	evidence = append(evidence, r.legacy(ctx, image, q, evidence)...)
	if slices.ContainsFunc(evidence, func(e verify.Evidence) bool { return r.says(e, q, policy.Release, intoto.SPDXDocument) }) {
		q.SBOM = d
	}
	v.Inputs = append(v.Inputs, verdict.Input{Name: name, Place: image.Name, Digest: d})
	r.take(v, q, evidence)
	r.reached(v, q, evidence)
}

// legacy reads what clients attached by tags, of each kind that the policy asks
// for and nothing that refers to the manifest answers.
func (r PolicyRequest) legacy(ctx context.Context, image Image, q policy.Question, evidence []verify.Evidence) (more []verify.Evidence) {
	builds := []string{provenance.PredicateType, provenance.PredicateTypeV02, provenance.PredicateTypeV01}
	for _, ask := range []struct {
		check  policy.Check
		role   policy.Role
		suffix string
		kinds  []string
	}{
		{policy.Signature, policy.Release, registry.SuffixSignatures, []string{intoto.CosignSignature}},
		{policy.Provenance, policy.Builder, registry.SuffixAttestations, builds},
	} {
		if r.Policy.Asks(r.Stage, q.Class, ask.check) == policy.Off ||
			slices.ContainsFunc(evidence, func(e verify.Evidence) bool { return r.says(e, q, ask.role, ask.kinds...) }) {
			continue
		}
		found, _, down := legacyEvidence{SignedBy(r.Verifier), r.Finder}.of(ctx, image, q.Bytes.SHA256, ask.suffix)
		more = append(more, found...)
		if down != nil {
			q.Why[ask.check] = about(q.Subject, down)
		}
	}
	return more
}

// says reports whether evidence is of one of these kinds, by a role, of what is
// asked about.
func (r PolicyRequest) says(e verify.Evidence, q policy.Question, role policy.Role, kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool {
		if e.Kind() != kind { // which the policy would say, too
			return false
		}
		_, err := r.Policy.Judge(e, policy.Ask{Role: role, Kind: kind, Stage: q.Stage, Class: q.Class, Subject: q.Subject, Bytes: q.Bytes, InRegistry: true})
		return err == nil
	})
}
