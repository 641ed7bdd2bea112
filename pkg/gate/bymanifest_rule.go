package gate

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// manifestRuling is what was found of one manifest of an image.
type manifestRuling struct {
	name     string
	level    int  // of the best provenance that does
	own      bool // a signer of the policy says how it was built
	foreign  int
	parts    int // manifests in it that it speaks for besides itself
	proofs   []verdict.Proof
	short    []verdict.Proof // provenance by a signer of the policy that falls short
	findings []verdict.Finding
}

func (r manifestRuling) met() bool { return r.name != "" && len(r.findings) == 0 }

// buildKinds are the forms of provenance that the promoter takes.
func buildKinds() []string { return []string{provenance.PredicateType, provenance.PredicateTypeV02} }

// judgeManifest reads the evidence about one manifest of an image and rules on it. Legacy
// attestations are read, if at all, where what refers to it does not do.
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

// probe asks the same about bytes that nobody made, which must be refused.
func (m *ManifestJudge) probe(evidence []verify.Evidence, name string, d digest.Digest) error {
	other := digest.Of(digest.SHA256, []byte("waybill: the probe of a manifest's policy, not an artifact: "+d.String()))
	if m.judge(evidence, name, other, 0).met() || m.judge(nil, name, d, 0).met() {
		return verdict.Refuse(verdict.PolicyVacuous, name, "the policy of %s accepts anything", m.Manifest)
	}
	return nil
}

// judge holds evidence against the policy.
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
				closest.err = citing(e, verdict.Find(verdict.Identity, name, "it was signed by none of the policy's signers").Differ(m.signers[0].who.String(), e.Identity().String()))
			}
		case !e.CoversBytes(d):
			closest.keep(1, citing(e, verdict.Find(verdict.NotBound, name, "the evidence is genuine, but not of this image").Differ(d.String(), subjects(e))))
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
			closest.err = verdict.Refuse(verdict.NoProvenance, name, "nothing that refers to it says how it was built, by one of the signers of %s", m.Manifest)
		}
		r.findings = append(r.findings, verdict.FindingOf(name, closest.err))
	}
	for _, kind := range m.Policy.PredicateTypes {
		if !attested[kind] {
			r.findings = append(r.findings, verdict.Find(verdict.EvidenceMissing, name, "no signer of %s attests %s of it", m.Manifest, kind))
		}
	}
	return r
}

// signer is the policy's signer who made the evidence; nil if none did.
func (m *ManifestJudge) signer(e verify.Evidence) *manifestSigner {
	for i := range m.signers {
		if e.Key().IsZero() && m.signers[i].who.Match(e.Identity()) {
			return &m.signers[i]
		}
	}
	return nil
}

// citing is the error of a finding about evidence.
func citing(e verify.Evidence, f verdict.Finding) error {
	return &verdict.Error{Finding: f.Citing(e.Bundle())}
}

// shortfall is why evidence does not do: of all of it, that which came nearest.
type shortfall struct {
	step int
	err  error
}

func (s *shortfall) keep(step int, err error) {
	if s.err == nil || step > s.step {
		s.step, s.err = step, err
	}
}

// build is provenance of an image, by a signer of the policy.
type build struct {
	judge    *ManifestJudge
	signer   *manifestSigner
	evidence verify.Evidence
	name     string
	digest   digest.Digest
	level    int
}

// checkClauses is the level that the provenance shows, if it is what the policy
// demands. Each clause is asked in its turn; how far it came is kept.
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
	want := "a builder of " + b.judge.Manifest
	if len(b.signer.builders) > 0 {
		want = b.signer.builders[0].ID
	}
	return citing(b.evidence, verdict.Find(verdict.Builder, b.name, "its signer may not speak for the builder that it names").Differ(want, claim.Builder.ID))
}

// ownBuilders are the entries of a builder that the signer may speak for.
func (b build) ownBuilders(id string) (list []promoterfile.Builder) {
	for _, one := range b.signer.builders {
		if id != "" && one.Is(id) {
			list = append(list, one)
		}
	}
	return list
}

// byCaller: the run that called the builder is what the certificate says and
// the provenance too, in a source of the policy, and one that may call it.
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
		return refuse(verdict.Workflow, "the certificate names no workflow that called its builder", "a workflow at a ref", claims.BuildConfigURI)
	}
	said := promoterfile.Run{Repository: repository(claim.Source.Repository), Path: claim.EntryPoint, Ref: claim.Source.Ref}
	switch {
	case said != run:
		return refuse(verdict.CertStatement, "certificate and statement differ about the run that called its builder", run.String(), said.String())
	case !b.judge.Policy.From(run.Repository):
		return refuse(verdict.SourceRepo, "its builder was called from another repository", b.judge.Policy.Sources[0], run.Repository)
	}
	for _, one := range callable {
		if !one.Caller.MayBe(run, claims.BuildTrigger) {
			return refuse(verdict.Workflow, "its builder was called by a run that may not", "a caller that the manifest lists", run.String()+" "+claims.BuildTrigger)
		}
	}
	return nil
}

// fromSource: one of the sources, whole and exact.
func (b build) fromSource(claim provenance.Claim) error {
	if b.judge.Policy.From(claim.Source.Repository) {
		return nil
	}
	return citing(b.evidence, verdict.Find(verdict.SourceRepo, b.name, "it was built from another repository").Differ(b.judge.Policy.Sources[0], claim.Source.Repository))
}

// atLevel: the level of the Build track, no higher than that of the least
// builder that the signer may speak for. Where no level is demanded, all that
// is believed of the signer must be shown.
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
