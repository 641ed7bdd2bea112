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
	"github.com/waybill-release/waybill/pkg/version"
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
	j := r.begin("image "+image.Name, image.To, plan.Image, plan.ImageChild)
	j.v.Scope.Left = append(j.v.Scope.Left, unnamed)
	manifests, _, err := image.manifests(ctx, "")
	if err != nil {
		j.fail(image.Name, err)
		return j.endOne(waiver.Subject{Name: image.Name})
	}
	var names []counted
	var subjects []waiver.Subject
	judged := map[string]bool{}
	for i, m := range manifests {
		class := plan.ImageChild
		if i == 0 {
			class = plan.Image
		}
		switch {
		case m.platform != nil:
			j.fail(m.name, m.platform)
			names = append(names, counted{name: m.name, asked: true})
		case !judged[m.subject]:
			judged[m.subject] = true
			j.take(r.collectManifest(ctx, image, class, m))
			names = append(names, counted{name: m.subject, asked: true})
			subjects = append(subjects, waiver.Subject{Name: m.subject, Digests: digest.SetOf(m.Raw), Destination: image.To})
		}
	}
	j.count(slices.Values(names))
	v := j.end(version.Version{}, subjects)
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

// collectManifest reads everything that refers to a manifest and holds, and of
// each legacy tag that the policy asks for and no referrer answers. What does not
// hold is somebody else's, and counts for nothing.
func (r PolicyRequest) collectManifest(ctx context.Context, image Image, class plan.Class, m imageManifest) (f facts) {
	q := r.question(class, m.subject, digest.SetOf(m.Raw)) // a statement may give digests of several kinds, and each must hold
	q.ByDigest = true
	lacking := func(found []verify.Evidence) (suffixes []string) {
		for _, tag := range legacyTags() {
			if r.Policy.Asks(r.Stage, class, tag.check) != policy.Off &&
				!slices.ContainsFunc(found, func(e verify.Evidence) bool { return r.says(e, q, tag.role, tag.kinds...) }) {
				suffixes = append(suffixes, tag.suffix)
			}
		}
		return suffixes
	}
	e, err := evidenceReader{signer: SignedBy(r.Verifier), finder: r.Finder}.read(ctx, image.target(m), lacking)
	if err != nil {
		f.fail(m.subject, err)
		return f
	}
	for _, tag := range legacyTags() {
		if down := e.unavailable[tag.suffix]; down != nil {
			q.Why[tag.check] = about(m.subject, down)
		}
	}
	e.note(&f, m.subject)
	evidence := e.all()
	if slices.ContainsFunc(evidence, func(e verify.Evidence) bool { return r.says(e, q, policy.Release, intoto.SPDXDocument) }) {
		q.SBOM = m.Descriptor.Digest
	}
	f.read(verdict.Input{Name: m.subject, Place: image.Name, Digest: m.Descriptor.Digest})
	f.items = []item{{question: q, evidence: evidence}}
	return f
}

// legacyTag is a tag by which clients attached evidence before there were
// referrers.
type legacyTag struct {
	check  policy.Check // that the evidence answers
	role   policy.Role
	suffix string
	kinds  []string // of what refers to the manifest instead
}

func legacyTags() []legacyTag {
	return []legacyTag{
		{policy.Signature, policy.Release, registry.SuffixSignatures, []string{intoto.CosignSignature}},
		{policy.Provenance, policy.Builder, registry.SuffixAttestations, []string{provenance.PredicateType, provenance.PredicateTypeV02, provenance.PredicateTypeV01}},
	}
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
