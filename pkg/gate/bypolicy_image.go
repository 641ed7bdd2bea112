package gate

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// unnamed is what evidence by digest leaves unproven.
const unnamed = "its name and tag: the verified evidence names only bytes"

// Image decides about an image: the index, and every manifest in it. Each
// registry request is made once.
func (r PolicyRequest) Image(ctx context.Context, image Image) *verdict.Verdict {
	image, done := remembered(image)
	defer done()
	defer image.ahead(ctx)()
	j := r.begin("image "+image.Name, image.To, plan.Image, plan.ImageChild)
	j.v.Scope.Left = append(j.v.Scope.Left, unnamed)
	manifests, _, err := image.manifests(ctx, "")
	if err != nil {
		return j.endUnknown(image.Name, err)
	}
	var noted facts
	manifests = platforms(manifests, &noted)
	j.addFacts(noted)
	judged := map[string]bool{}
	proven := false
	for i, m := range manifests {
		class := plan.ImageChild
		if i == 0 {
			class = plan.Image
		}
		if m.platform == nil && judged[m.subject] {
			continue
		}
		judged[m.subject] = judged[m.subject] || m.platform == nil
		if proven {
			m.name = m.subject
			j.addCounted(m.listed(nil), image.To)
			continue
		}
		f := r.collectManifest(ctx, image, class, m)
		j.addCounted(f, image.To)
		if i == 0 && r.Policy.NewSession().ChildrenByIndex() && j.accepted[m.subject] && len(manifests) > 1 {
			proven = r.childrenBy(j, f.items[0])
		}
	}
	j.v.Levels = joined(j.v.Levels)
	v := j.endCounted()
	refuseUnproven(v)
	return v
}

// childrenBy reports whether the evidence about an accepted index also meets what
// the policy requires of the manifests in it; else each needs its own.
func (r PolicyRequest) childrenBy(j *judge, index item) bool {
	index.question.Class = plan.ImageChild
	answer := j.rule.Decide(index)
	if answer.Outcome() != verdict.Accepted {
		j.v.Note("%s: the evidence about the index does not meet what the policy requires of its manifests: %v", index.question.Subject, answer.Err())
		return false
	}
	j.v.Note("%s: its manifests are proven by the evidence of the index, which lists them by digest", index.question.Subject)
	return true
}

// refuseUnproven refuses a manifest for which a finding is set aside and
// nothing else is proven: an exception excuses one missing thing, no more.
func refuseUnproven(v *verdict.Verdict) {
	if len(v.Findings) > 0 {
		return
	}
	for _, w := range v.Waived {
		name := w.Finding.Subject
		if slices.ContainsFunc(v.Proofs, func(p verdict.Proof) bool { return p.Subject == name && p.Role != string(policy.Officer) }) {
			continue
		}
		v.Add(verdict.Find(verdict.EvidenceMissing, name, "%s is set aside by an exception, and no other evidence about this manifest was accepted", w.Finding.Code).
			Advise("sign the image, or build it where its provenance is signed"))
	}
	if len(v.Waived) > 0 && len(v.Findings) == 0 && v.Counts.Verified == 0 {
		v.Counts.Required++
		v.Counts.Verified++
	}
}

// collectManifest reads all valid evidence attached to a manifest, and each
// legacy tag for which the policy requires evidence that no referrer has.
// Invalid evidence is foreign and ignored.
func (r PolicyRequest) collectManifest(ctx context.Context, image Image, class plan.Class, m imageManifest) (f facts) {
	if m.platform != nil {
		f.unknown(m.name, m.platform)
		return f
	}
	q := r.question(class, m.subject, digest.SetOf(m.Raw)) // a statement may give several digests, and each must match
	q.ByDigest, q.Image = true, image.path()+"@"+m.Descriptor.Digest.String()
	e, err := evidenceReader{signer: SignedBy(r.Verifier), finder: r.Finder}.read(ctx, image.target(m), func(suffix string, found []verify.Evidence) bool {
		role, kinds := policy.Release, []string{intoto.CosignSignature}
		if suffix == registry.SuffixAttestations {
			role, kinds = policy.Builder, []string{provenance.PredicateType, provenance.PredicateTypeV02, provenance.PredicateTypeV01}
		}
		return r.Policy.Asks(r.Stage, class, checkBy(suffix)) != policy.Off &&
			!slices.ContainsFunc(found, func(e verify.Evidence) bool { return r.attests(e, q, role, kinds...) })
	})
	if err != nil {
		f.unknown(m.subject, err)
		return f
	}
	for suffix, down := range e.unavailable {
		q.Why[checkBy(suffix)] = about(m.subject, down)
	}
	e.note(&f, m.subject)
	m.noteFile(&f)
	evidence := e.all()
	if slices.ContainsFunc(evidence, func(e verify.Evidence) bool {
		return e.Statement().IsSPDX() && len(e.Statement().Predicate()) > len("{}") && r.attests(e, q, policy.Release, e.Kind())
	}) {
		q.SBOM = m.Descriptor.Digest
	}
	f.addInputs(verdict.Input{Name: m.subject, Place: image.Name, Digest: m.Descriptor.Digest})
	f.items = []item{{question: q, evidence: evidence}}
	return f
}

// checkBy is the check for which a legacy tag has evidence.
func checkBy(suffix string) policy.Check {
	if suffix == registry.SuffixSignatures {
		return policy.Signature
	}
	return policy.Provenance
}

// attests reports whether evidence is of one of these kinds, signed by a role,
// about the questioned artifact.
func (r PolicyRequest) attests(e verify.Evidence, q policy.Question, role policy.Role, kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool {
		if e.Kind() != kind { // the policy would refuse it too
			return false
		}
		_, err := r.Policy.Judge(e, policy.Ask{Role: role, Kind: kind, Stage: q.Stage, Class: q.Class, Subject: q.Subject, Bytes: q.Bytes, InRegistry: true})
		return err == nil
	})
}
