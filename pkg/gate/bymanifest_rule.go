package gate

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// manifestRuling is the result for one manifest of an image.
type manifestRuling struct {
	name     string
	level    int  // of the best sufficient provenance
	own      bool // a signer of the policy signed provenance of it
	foreign  int
	parts    int // manifests in the index that its ruling also covers
	proofs   []verdict.Proof
	short    []verdict.Proof // insufficient provenance by a signer of the policy
	findings []verdict.Finding
}

func (r manifestRuling) met() bool { return r.name != "" && len(r.findings) == 0 }

// buildKinds are the accepted provenance types.
func buildKinds() []string { return []string{provenance.PredicateType, provenance.PredicateTypeV02} }

// judgeManifest reads the evidence about one manifest of an image and judges
// it. Legacy attestations are read, if at all, only if the attached evidence is
// insufficient.
func (m *ManifestJudge) judgeManifest(ctx context.Context, image Image, one imageManifest, legacy bool) (r manifestRuling, err error) {
	name, d, level := one.subject, one.Descriptor.Digest, m.Policy.LevelOf(image.Repository)
	reader := evidenceReader{SignedBy(m.Verifier), m.Finder, append(buildKinds(), m.Policy.PredicateTypes...)}
	e, err := reader.read(ctx, image.target(one), func(suffix string, found []verify.Evidence) bool {
		if suffix != registry.SuffixAttestations {
			return false
		}
		r = m.judge(found, name, d, level)
		return legacy && !r.met()
	})
	if err != nil {
		return r, err
	}
	if len(e.legacy) > 0 {
		r = m.judge(e.all(), name, d, level)
	}
	r.foreign += e.failed + e.unread + len(e.invalid)
	if r.met() {
		return r, m.probe(e.all(), name, d)
	}
	return r, e.unavailable[registry.SuffixAttestations]
}

// probe repeats the judgement for bytes that have no evidence. It must refuse
// them, else the policy accepts anything.
func (m *ManifestJudge) probe(evidence []verify.Evidence, name string, d digest.Digest) error {
	other := digest.Of(digest.SHA256, []byte("waybill: the probe of a manifest's policy, not an artifact: "+d.String()))
	if m.judge(evidence, name, other, 0).met() || m.judge(nil, name, d, 0).met() {
		return verdict.Refuse(verdict.PolicyVacuous, name, "the policy of %s accepts anything", m.Manifest)
	}
	return nil
}

// judge compares evidence with the policy.
func (m *ManifestJudge) judge(evidence []verify.Evidence, name string, d digest.Digest, level int) manifestRuling {
	r := manifestRuling{name: name}
	var closest shortfall
	attested := map[string]bool{}
	for _, e := range evidence {
		s := m.signer(e)
		switch {
		case s == nil:
			r.foreign++
			if closest.err == nil && slices.Contains(buildKinds(), e.Kind()) && e.CoversBytes(d) {
				closest.err = citing(e, verdict.Find(verdict.Identity, name, "the provenance is not by a signer of the policy").Differ(m.signers[0].who.String(), e.Identity().String()))
			}
		case !e.CoversBytes(d):
			closest.keep(1, citing(e, verdict.Find(verdict.NotBound, name, "the evidence is valid, but for another image").Differ(d.String(), subjects(e))))
		case !slices.Contains(buildKinds(), e.Kind()):
			attested[e.Kind()] = true
			r.proofs = append(r.proofs, proofOf(e, e.Kind(), name))
		default:
			r.own = true
			b := build{judge: m, signer: s, evidence: e, name: name, digest: d, level: level}
			reached, err := b.checkClauses(&closest)
			p := proofOf(e, e.Kind(), name)
			p.Role = "builder"
			if err != nil {
				r.short = append(r.short, p)
				continue
			}
			attested[e.Kind()] = true
			r.level = max(r.level, reached)
			r.proofs = append(r.proofs, p)
		}
	}
	if !slices.ContainsFunc(buildKinds(), func(kind string) bool { return attested[kind] }) {
		if closest.err == nil {
			closest.err = verdict.Refuse(verdict.NoProvenance, name, "no provenance signed by a signer of %s is attached", m.Manifest)
		}
		r.findings = append(r.findings, verdict.FindingOf(name, closest.err))
	}
	for _, kind := range m.Policy.PredicateTypes {
		if !attested[kind] {
			r.findings = append(r.findings, verdict.Find(verdict.EvidenceMissing, name, "no signer of %s signed an attestation of type %s", m.Manifest, kind))
		}
	}
	return r
}

// signer returns who made the evidence, by all signers of the policy that
// match, or nil. Who matches several "may claim the builders that name any of
// them, at no more than their lowest level".
func (m *ManifestJudge) signer(e verify.Evidence) *manifestSigner {
	var who identity.Matcher
	var specs []string
	for _, s := range m.signers {
		if e.Key().IsZero() && s.who.Match(e.Identity()) {
			who, specs = s.who, append(specs, s.spec)
		}
	}
	if len(specs) == 0 {
		return nil
	}
	return &manifestSigner{who: who, builders: m.Policy.Claimable(specs...), ceiling: m.Policy.Ceiling(specs...)}
}

// citing is the error of a finding about evidence.
func citing(e verify.Evidence, f verdict.Finding) error {
	return &verdict.Error{Finding: f.Citing(e.Bundle())}
}

// shortfall is why evidence is insufficient: the error of the evidence that
// passed the most clauses.
type shortfall struct {
	step int
	err  error
}

func (s *shortfall) keep(step int, err error) {
	if s.err == nil || step > s.step {
		s.step, s.err = step, err
	}
}

// build is provenance of an image by a signer of the policy.
type build struct {
	judge    *ManifestJudge
	signer   *manifestSigner
	evidence verify.Evidence
	name     string
	digest   digest.Digest
	level    int
}

// checkClauses returns the level that the provenance shows, if it meets all
// clauses of the policy. They are checked in order; closest records how many
// passed.
func (b build) checkClauses(closest *shortfall) (int, error) {
	claim, err := provenance.Read(b.evidence.Statement())
	if err == nil {
		err = contradicted(b.evidence, b.name)
	}
	if err != nil {
		closest.keep(2, err)
		return 0, err
	}
	for i, clause := range []func(provenance.Claim) error{b.byBuilder, b.byCaller, b.fromSource} {
		if err := clause(claim); err != nil {
			closest.keep(3+i, err)
			return 0, err
		}
	}
	level, err := b.atLevel(claim)
	if err != nil {
		closest.keep(9, err)
	}
	return level, err
}

// byBuilder: "A signer that builders name may claim only the builders that name
// it, and the other signers only the builders that name no signers."
func (b build) byBuilder(claim provenance.Claim) error {
	if len(b.ownBuilders(claim.Builder.ID)) > 0 {
		return nil
	}
	want := "a builder listed in " + b.judge.Manifest
	if len(b.signer.builders) > 0 {
		want = b.signer.builders[0].ID
	}
	return citing(b.evidence, verdict.Find(verdict.Builder, b.name, "the signer may not sign provenance for the builder that the provenance names").Differ(want, claim.Builder.ID))
}

// ownBuilders are the entries of a builder for which the signer may sign.
func (b build) ownBuilders(id string) []promoterfile.Builder {
	return slice.Filter(b.signer.builders, func(one promoterfile.Builder) bool { return id != "" && one.Is(id) })
}

// byCaller: the certificate and the provenance name the same run as the caller
// of the builder, in a listed source, and the policy lets that run call it.
func (b build) byCaller(claim provenance.Claim) error {
	callable := slices.DeleteFunc(b.ownBuilders(claim.Builder.ID), func(one promoterfile.Builder) bool { return one.Caller == nil })
	if len(callable) == 0 {
		return nil
	}
	claims := b.evidence.Claims()
	run, named := promoterfile.ParseRun(claims.BuildConfigURI)
	refuse := func(code verdict.Code, message, want, got string) error {
		return citing(b.evidence, verdict.Find(code, b.name, "%s", message).Differ(want, got))
	}
	if !named {
		return refuse(verdict.Workflow, "the certificate names no workflow that called the builder", "a workflow at a ref", claims.BuildConfigURI)
	}
	said := promoterfile.Run{Repository: claim.Source.Address(), Path: claim.EntryPoint, Ref: claim.Source.Ref}
	switch {
	case said != run:
		return refuse(verdict.CertStatement, "certificate and statement name different runs as the caller of the builder", run.String(), said.String())
	case !b.judge.Policy.From(run.Repository):
		return refuse(verdict.SourceRepo, "the builder was called from another repository", b.judge.Policy.Sources[0], run.Repository)
	}
	for _, one := range callable {
		if !one.Caller.MayBe(run, claims.BuildTrigger) {
			return refuse(verdict.Workflow, "the builder was called by a run that the policy does not allow", "a caller that the manifest lists", run.String()+" "+claims.BuildTrigger)
		}
	}
	return nil
}

// fromSource: the repository is exactly one of the listed sources.
func (b build) fromSource(claim provenance.Claim) error {
	if b.judge.Policy.From(claim.Source.Repository) {
		return nil
	}
	return citing(b.evidence, verdict.Find(verdict.SourceRepo, b.name, "built from another repository").Differ(b.judge.Policy.Sources[0], claim.Source.Repository))
}

// atLevel: the level of the Build track, at most the lowest that the policy
// trusts any builder of this signer for. If no level is required, the
// provenance must show that whole level.
func (b build) atLevel(claim provenance.Claim) (int, error) {
	trust, err := slsa.NewTrust([]slsa.Pair{{Signer: b.signer.who, BuilderID: claim.Builder.ID, Level: b.signer.ceiling}}, nil)
	if err != nil {
		return 0, err
	}
	report, err := trust.Judge(slsa.Question{Name: b.name, Bytes: digest.Set{SHA256: b.digest}, ByDigest: true, Provenance: b.evidence})
	if err != nil {
		return 0, err
	}
	want := b.level
	if want == 0 {
		want = b.signer.ceiling
	}
	return report.On(slsa.Build).Level, report.Meet(slsa.Demand{Track: slsa.Build, Level: want})
}
