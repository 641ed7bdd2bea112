package gate

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/promoter"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/slsa"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// manifestRuling is what was found of one manifest of an image.
type manifestRuling struct {
	name     string
	level    int  // of the best provenance that does
	own      bool // a signer of the policy says how it was built
	foreign  int
	proofs   []verdict.Proof
	short    []verdict.Proof // provenance by a signer of the policy that falls short
	findings []verdict.Finding
}

func (r manifestRuling) met() bool { return r.name != "" && len(r.findings) == 0 }

// buildKinds are the forms of provenance that the promoter takes.
func buildKinds() []string { return []string{provenance.PredicateType, provenance.PredicateTypeV02} }

// hear collects what refers to a manifest and rules on it. Attestations in the
// legacy form are looked for where that does not do.
func (j *ManifestJudge) hear(ctx context.Context, c manifestCase, n *registry.Node, legacy bool) (manifestRuling, error) {
	d := n.Descriptor.Digest
	name := c.image.Repository + "@" + d.String()
	a, err := readAttached(ctx, j.Verifier, registry.Target{Source: c.image.Source, Repository: c.image.Repository, Digest: d}, append(buildKinds(), j.Policy.PredicateTypes...)...)
	if err != nil {
		return manifestRuling{name: name}, err
	}
	evidence, foreign := a.holds, a.failed+a.unread
	r := j.rule(evidence, name, d, c.level)
	if !r.met() && legacy {
		more, strange, down := legacyEvidence{SignedBy(j.Verifier), j.Finder}.of(ctx, c.image, d, registry.SuffixAttestations)
		evidence, foreign = append(evidence, more...), foreign+strange
		if r = j.rule(evidence, name, d, c.level); !r.met() && down != nil {
			return r, down
		}
	}
	r.foreign += foreign
	if r.met() {
		return r, j.probe(evidence, name, d)
	}
	return r, nil
}

// probe asks the same about bytes that nobody made, which must be refused.
func (j *ManifestJudge) probe(evidence []verify.Evidence, name string, d digest.Digest) error {
	other := digest.Of(digest.SHA256, []byte("waybill: the probe of a manifest's policy, not an artifact: "+d.String()))
	if j.rule(evidence, name, other, 0).met() || j.rule(nil, name, d, 0).met() {
		return verdict.Refuse(verdict.PolicyVacuous, name, "the policy of %s accepts anything", j.Manifest)
	}
	return nil
}

// rule holds evidence against the policy.
func (j *ManifestJudge) rule(evidence []verify.Evidence, name string, d digest.Digest, level int) manifestRuling {
	r := manifestRuling{name: name}
	var near shortfall
	said := map[string]bool{}
	for _, e := range evidence {
		s := j.signer(e)
		switch {
		case s == nil:
			r.foreign++
			if near.err == nil && slices.Contains(buildKinds(), e.Kind()) && e.CoversBytes(d) {
				near.err = find(e, verdict.Find(verdict.Identity, name, "it was signed by none of the policy's signers").Differ(j.signers[0].who.String(), e.Identity().String()))
			}
		case !e.CoversBytes(d):
			near.keep(1, find(e, verdict.Find(verdict.NotBound, name, "the evidence is genuine, but not of this image").Differ(d.String(), subjects(e))))
		case !slices.Contains(buildKinds(), e.Kind()):
			said[e.Kind()] = true
			r.proofs = append(r.proofs, proofOf(e, e.Kind(), name))
		default:
			r.own = true
			b := build{judge: j, signer: s, evidence: e, name: name, digest: d, level: level}
			reached, err := b.reached(&near)
			p := proofOf(e, e.Kind(), name)
			p.Role = "builder"
			if err != nil {
				r.short = append(r.short, p)
				continue
			}
			said[e.Kind()] = true
			r.level = max(r.level, reached)
			r.proofs = append(r.proofs, p)
		}
	}
	if !slices.ContainsFunc(buildKinds(), func(kind string) bool { return said[kind] }) {
		if near.err == nil {
			near.err = verdict.Refuse(verdict.NoProvenance, name, "nothing that refers to it says how it was built, by one of the signers of %s", j.Manifest)
		}
		r.findings = append(r.findings, verdict.FindingOf(name, near.err))
	}
	for _, kind := range j.Policy.PredicateTypes {
		if !said[kind] {
			r.findings = append(r.findings, verdict.Find(verdict.EvidenceMissing, name, "no signer of %s attests %s of it", j.Manifest, kind))
		}
	}
	return r
}

// signer is the policy's signer who made the evidence; nil if none did.
func (j *ManifestJudge) signer(e verify.Evidence) *manifestSigner {
	for i := range j.signers {
		if e.Key().IsZero() && j.signers[i].who.Match(e.Identity()) {
			return &j.signers[i]
		}
	}
	return nil
}

// find is the error of a finding about evidence.
func find(e verify.Evidence, f verdict.Finding) error {
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

// reached is the level that the provenance shows, if it is what the policy
// demands. Each clause is asked in its turn; how far it came is kept.
func (b build) reached(near *shortfall) (int, error) {
	claim, err := provenance.Read(b.evidence.Statement())
	if err == nil {
		err = contradicted(b.evidence, b.name)
	}
	if err != nil {
		near.keep(2, err)
		return 0, err
	}
	for i, clause := range []func(provenance.Claim) error{b.byBuilder, b.byCaller, b.fromSource} {
		if err := clause(claim); err != nil {
			near.keep(3+i, err)
			return 0, err
		}
	}
	level, err := b.atLevel(claim)
	if err != nil {
		near.keep(9, err)
	}
	return level, err
}

// byBuilder: "A signer that builders name may claim only the builders that name
// it, and the other signers only the builders that name no signers."
func (b build) byBuilder(claim provenance.Claim) error {
	if len(b.meant(claim.Builder.ID)) > 0 {
		return nil
	}
	want := "a builder of " + b.judge.Manifest
	if len(b.signer.builders) > 0 {
		want = b.signer.builders[0].ID
	}
	return find(b.evidence, verdict.Find(verdict.Builder, b.name, "its signer may not speak for the builder that it names").Differ(want, claim.Builder.ID))
}

// meant are the entries of a builder that the signer may speak for.
func (b build) meant(id string) (list []promoter.Builder) {
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
	meant := slices.DeleteFunc(b.meant(claim.Builder.ID), func(one promoter.Builder) bool { return one.Caller == nil })
	if len(meant) == 0 {
		return nil
	}
	claims := b.evidence.Claims()
	run, named := promoter.ParseRun(claims.BuildConfigURI)
	refuse := func(code verdict.Code, message, want, got string) error {
		return find(b.evidence, verdict.Find(code, b.name, "%s", message).Differ(want, got))
	}
	if !named {
		return refuse(verdict.Workflow, "the certificate names no workflow that called its builder", "a workflow at a ref", claims.BuildConfigURI)
	}
	said := promoter.Run{Repository: repository(claim.Source.Repository), Path: claim.EntryPoint, Ref: claim.Source.Ref}
	switch {
	case said != run:
		return refuse(verdict.CertStatement, "certificate and statement differ about the run that called its builder", run.String(), said.String())
	case !b.judge.Policy.From(run.Repository):
		return refuse(verdict.SourceRepo, "its builder was called from another repository", b.judge.Policy.Sources[0], run.Repository)
	}
	for _, one := range meant {
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
	return find(b.evidence, verdict.Find(verdict.SourceRepo, b.name, "it was built from another repository").Differ(b.judge.Policy.Sources[0], claim.Source.Repository))
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
