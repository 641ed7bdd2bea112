package gate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxDocument bounds an SBOM or a configuration file.
const maxDocument = 64 << 20

// checkPlan expands the published release.yaml and compares it with the
// manifest, which must list exactly what the source planned.
func (s *sealed) checkPlan(ctx context.Context, by vouching) (p plan.Plan, f facts) {
	mode := s.Policy.Plan()
	if mode == policy.Off || s.Options.Scope.Depth != allEvidence {
		return p, f
	}
	raw, err := s.readListed(ctx, plan.ConfigName)
	if err != nil {
		f.weigh(mode, verdict.FindingOf(plan.ConfigName, err))
		return p, f
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		f.weigh(mode, verdict.Find(verdict.ManifestParse, plan.ConfigName, "the published file does not parse: %v", err))
		return p, f
	}
	if err := s.checkLock(ctx, config); err != nil {
		f.weigh(mode, verdict.FindingOf(plan.LockName, err))
	}
	chosen, mixed := s.parameters(by)
	f.weigh(mode, mixed...)
	p, err = config.ExpandWith(s.manifest.Version, chosen)
	if err != nil {
		f.weigh(mode, verdict.Find(verdict.ManifestParse, plan.ConfigName, "the published file cannot be expanded to a plan: %v", err))
		return plan.Plan{}, f
	}
	if !maps.Equal(p.Parameters, chosen) {
		f.weigh(mode, verdict.Find(verdict.ParamValue, plan.ConfigName, "the provenance does not name every parameter that release.yaml declares"))
	}
	if _, listed := s.manifest.Find(sbomlist.Name); !listed {
		p = p.WithoutSBOMList() // sealed before there were such lists; the policy may require one
	}
	p = s.manifest.withLegacy(p)
	f.weigh(mode, s.comparePlan(p)...)
	return p, f
}

// comparePlan compares the manifest with what was planned.
func (s *sealed) comparePlan(p plan.Plan) (differ []verdict.Finding) {
	asked := s.askedOf(p)
	for _, want := range p.Artifacts {
		got, there := s.manifest.Find(want.Name)
		if !there && asked[want.Name] {
			continue // reported as a finding of the artifact that lacks this evidence
		}
		if !there || got.Class != want.Class || got.Platform != want.Platform || got.Step != want.Step {
			differ = append(differ, verdict.Find(verdict.PlanMissing, want.Name, "release.yaml plans it as %s of step %q; the manifest lists it differently or not at all", want.Class, want.Step))
		}
	}
	for _, got := range s.manifest.Artifacts {
		if _, planned := p.Find(got.Name); !planned {
			differ = append(differ, verdict.Find(verdict.PlanExtra, got.Name, "the manifest lists it, and release.yaml does not plan it"))
		}
	}
	return differ
}

// askedOf names the planned evidence that the policy requires for an artifact.
// If such evidence is absent, the artifact has the finding, and an exception
// can cover it there.
func (s *sealed) askedOf(p plan.Plan) map[string]bool {
	asked := map[string]bool{}
	for _, a := range p.Artifacts {
		if _, listed := s.manifest.Find(a.Name); !listed {
			continue
		}
		for check, name := range map[policy.Check]string{
			policy.SBOM: plan.SBOMName(a.Name), policy.Signature: plan.BundleName(a.Name),
		} {
			if s.Policy.Asks(s.Stage, a.Class, check) == policy.Require {
				asked[name] = true
			}
		}
	}
	return asked
}

// parameters returns the parameters that the provenances name. A release is
// built with one set of parameters; two sets are a mix of builds.
func (s *sealed) parameters(by vouching) (chosen map[string]string, mixed []verdict.Finding) {
	first := ""
	for _, a := range s.manifest.Artifacts {
		if a.Class != plan.Provenance {
			continue
		}
		got := s.builds[a.Name]()
		if got.unread != nil || got.refused != nil || got.run != nil && !s.vouchedAll(by, a.Name) {
			continue // reported by checkRuns
		}
		said, err := provenance.Parse(got.evidence.Statement())
		if err != nil {
			continue // reported by checkRuns
		}
		switch params := said.BuildDefinition.ExternalParameters.Parameters; {
		case first == "":
			chosen, first = params, a.Name
		case !maps.Equal(chosen, params):
			mixed = append(mixed, verdict.Find(verdict.BuildMix, a.Name, "built with other parameters than those in %s", first))
		}
	}
	return chosen, mixed
}

// filesToJudge are the files to judge by the policy. Files with a finding are
// left out: their evidence is about other bytes.
func (g gathered) filesToJudge() []manifest.Artifact {
	return slice.Filter(g.release.manifest.Files(), func(a manifest.Artifact) bool {
		return g.release.covers(a) && g.holds(a.Name) && g.release.asks(a.Class)
	})
}

// items collects the evidence of artifacts, in parallel.
func (g gathered) items(ctx context.Context, due []manifest.Artifact, p *progress) facts {
	f := facts{items: make([]item, len(due))}
	inParallel(len(due), func(i int) {
		f.items[i] = g.item(ctx, due[i])
		p.add(0, 1)
	})
	return f
}

// item collects the evidence of one artifact.
func (g gathered) item(ctx context.Context, a manifest.Artifact) item {
	if a.Class == plan.SBOM {
		return g.sbomItem(a)
	}
	i := item{question: g.release.question(a), evidence: slices.Clip(g.late[a.Digests.SHA256])}
	q := &i.question
	bring := func(check policy.Check, from func(context.Context, manifest.Artifact) (verify.Evidence, error)) {
		if !slices.Contains(policy.ChecksOf(a.Class), check) || g.release.Policy.Asks(g.release.Stage, a.Class, check) == policy.Off {
			return
		}
		e, err := from(ctx, a)
		if err != nil {
			q.Why[check] = err
			return
		}
		i.evidence = append(i.evidence, e)
	}
	if by, is := g.vouched[a.Name]; is {
		i.evidence = append(i.evidence, by.more...)
	} else {
		bring(policy.Provenance, g.provenanceOf)
	}
	if a.IsImage() {
		bring(policy.Signature, g.imageSignatureOf)
		if g.release.Policy.Asks(g.release.Stage, a.Class, policy.Summary) != policy.Off {
			var summaries []verify.Evidence
			summaries, q.Why[policy.Summary] = g.release.reader.summariesOf(ctx, a)
			i.evidence = append(i.evidence, summaries...)
		}
	} else {
		q.Sealed = g.isSealedOnly(a)
		bring(policy.Signature, g.signatureOf)
	}
	if g.release.isRefused(a) {
		i.reported = verdict.NoProvenance // checkRuns reports the provenance itself
	}
	if mode := g.release.Policy.Asks(g.release.Stage, a.Class, policy.SBOM); mode != policy.Off {
		document, err := g.documentOf(ctx, a)
		_, q.SBOM = document.Describes()
		q.Why[policy.SBOM], q.Omitted = err, sbomcheck.Omitted(document)
		q.Lacks = lacking(g.release.Policy, *q, document)
		if err == nil && q.SBOM.Equal(a.Digests.SHA256) { // else the digest mismatch is the only finding
			var compared facts
			compared.weigh(mode, g.crossCheckSBOM(ctx, a, document)...)
			i.differences = compared.differences
		}
	}
	return i
}

func (s *sealed) question(a manifest.Artifact) policy.Question {
	return policy.Question{
		Stage: s.Stage, Class: a.Class, Subject: a.Name, Bytes: a.Digests, Version: s.manifest.Version.String(),
		Commit: s.manifest.Source.Commit, At: s.Now, Why: map[policy.Check]error{}, Named: true,
		ByDigest: a.IsImage() && s.manifest.isGiven(), // other tools do not use our names for images
	}
}

// isRefused reports whether the provenance of an artifact has a finding of its
// own.
func (s *sealed) isRefused(a manifest.Artifact) bool {
	got := s.builds[a.Provenance]
	return got != nil && got().run != nil
}

// provenances are the provenance bundles of a release, by file name. Each is
// read and verified once, on first use, since one may cover many artifacts.
type provenances map[string]func() attested

// attested is a provenance bundle that was read and verified, or the error; run
// is why policy or manifest do not allow the run that it names.
type attested struct {
	evidence             verify.Evidence
	claim                provenance.Claim // its contents, unless refused
	unread, refused, run error
}

// openProvenances prepares each provenance bundle to be read on first use.
func (s *sealed) openProvenances(ctx context.Context) provenances {
	all := provenances{}
	for _, a := range s.manifest.Artifacts {
		name := a.Provenance
		if a.Class == plan.Provenance {
			name = a.Name
		}
		if all[name] == nil && name != "" {
			all[name] = sync.OnceValue(func() attested { return s.attest(ctx, name) })
		}
	}
	return all
}

func (s *sealed) attest(ctx context.Context, name string) (got attested) {
	raw, err := s.readListed(ctx, name)
	if err != nil {
		return attested{unread: err}
	}
	got.evidence, err = s.Verifier.Attestation(raw)
	if got.refused = inBundle(name, name, err); got.refused == nil {
		got.run = s.checkRun(name, got.evidence)
		// Many artifacts share one provenance, which can name thousands.
		// checkRun reports one that does not parse.
		got.claim, _ = provenance.Read(got.evidence.Statement())
	}
	return got
}

// checkRuns checks for each listed provenance that policy and manifest allow
// its run. A finding is as strict as the requirement of provenance for the
// artifacts that were built in that run.
func checkRuns(_ context.Context, g gathered) (f facts) {
	for _, a := range g.release.manifest.Artifacts {
		if a.Class != plan.Provenance || g.release.Options.Scope.Depth != allEvidence {
			continue
		}
		mode := g.weightOf(a)
		if mode == policy.Off {
			continue
		}
		got := g.release.builds[a.Name]()
		if err := errors.Join(got.unread, got.refused, got.run); err != nil {
			f.follow(a.Name, mode, verdict.FindingOf(a.Name, err))
		}
	}
	return f
}

// weightOf is how strict a finding about a provenance is: as strict as the
// requirement of provenance for any artifact that uses it, and refused when no
// artifact uses it, because then it is misplaced.
func (g gathered) weightOf(of manifest.Artifact) policy.Mode {
	strongest, used := policy.Off, !g.release.covers(of)
	for _, a := range g.release.manifest.Artifacts {
		if a.Provenance != of.Name || !g.release.covers(a) {
			continue
		}
		mode := g.release.Policy.Asks(g.release.Stage, a.Class, policy.Provenance)
		if _, is := g.vouched[a.Name]; is {
			mode = policy.Off
		}
		if used = true; mode == policy.Require || strongest == policy.Off {
			strongest = mode
		}
	}
	if !used {
		return policy.Require
	}
	return strongest
}

func (g gathered) provenanceOf(_ context.Context, a manifest.Artifact) (verify.Evidence, error) {
	switch {
	case a.Provenance == "":
		return verify.Evidence{}, verdict.Refuse(verdict.NoProvenance, a.Name, "the manifest names no provenance for it")
	case a.Provenance != plan.ProvenanceName(a.Step) && (a.Step != "" || !g.release.manifest.isGiven()):
		return verify.Evidence{}, verdict.Refuse(verdict.NoProvenance, a.Name, "the manifest names the provenance %q, which is for another step", a.Provenance)
	}
	got := g.release.builds[a.Provenance]()
	switch {
	case got.unread != nil:
		return verify.Evidence{}, evidenceError(verdict.NoProvenance, a.Name, a.Provenance, got.unread)
	case got.refused != nil:
		return verify.Evidence{}, got.refused
	case got.run != nil:
		return verify.Evidence{}, verdict.Refuse(verdict.NoProvenance, a.Name, "the provenance %s was refused", a.Provenance)
	}
	if g.release.manifest.isTheirs(got.evidence) {
		return got.evidence, nil // the policy says which provenance types of other builders count
	}
	return ofKind(got.evidence, a.Name, provenance.PredicateType)
}

// ofKind refuses evidence whose predicate type is not the one for which the
// manifest lists it.
func ofKind(e verify.Evidence, artifact, kind string) (verify.Evidence, error) {
	if e.Kind() != kind {
		return verify.Evidence{}, &verdict.Error{Finding: verdict.Find(verdict.PredicateType, artifact, "the evidence has another predicate type").
			Differ(kind, e.Kind()).Citing(e.Bundle())}
	}
	return e, nil
}

// checkRun compares one provenance with policy and manifest: an allowed
// builder, the canonical source, the manifest's commit and its run.
func (s *sealed) checkRun(name string, e verify.Evidence) error {
	if s.manifest.isTheirs(e) {
		return s.checkTheirs(name, e)
	}
	said, err := provenance.Parse(e.Statement())
	if err != nil {
		return err
	}
	if err := s.Policy.Provenance(e, s.manifest.Version.String()); err != nil {
		return err
	}
	return s.manifest.checkSaid(name, e, said)
}

// checkSaid compares the contents of a provenance with the manifest.
func (m signedManifest) checkSaid(name string, e verify.Evidence, said provenance.Provenance) error {
	params, run := said.BuildDefinition.ExternalParameters, said.RunDetails.Metadata.InvocationID
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, name, "%s", message).Differ(want, got).Citing(e.Bundle())}
	}
	if found, differs := m.Source.Differs(name, said); differs {
		return &verdict.Error{Finding: found.Citing(e.Bundle())}
	}
	switch {
	case params.Version != m.Version.String():
		return differ(verdict.Version, "provenance of another version", m.Version.String(), params.Version)
	case params.Config.SHA256 != m.Config.Hex():
		return differ(verdict.NotBound, "built from another release.yaml", m.Config.Hex(), params.Config.SHA256)
	case lockOf(said) != m.Lock.Hex():
		return differ(verdict.NotBound, "built from another "+plan.LockName, m.Lock.Hex(), lockOf(said))
	case len(m.Runs) == 0 || run != m.Runs[0].ID:
		return differ(verdict.BuildMix, "built in a run that the manifest does not name", runOf(m.Manifest), run)
	}
	for _, r := range said.BuildDefinition.ResolvedDependencies {
		a, listed := m.Find(r.Name)
		if used := r.Digest["sha256"]; listed && isBuilt(a) && used != "" && used != a.Digests.SHA256.Hex() {
			return differ(verdict.BuildMix, "made from another "+a.Name+" than the one in the release", a.Digests.SHA256.Hex(), used)
		}
	}
	return nil
}

// lockOf is the digest of the lock that the provenance names; empty if it names
// none.
func lockOf(said provenance.Provenance) string {
	for _, r := range said.BuildDefinition.ResolvedDependencies {
		if r.Name == plan.LockName {
			return r.Digest["sha256"]
		}
	}
	return ""
}

func runOf(m manifest.Manifest) string {
	if len(m.Runs) == 0 {
		return "no run"
	}
	return m.Runs[0].ID
}

// signatureOf is the signature that the manifest names for a file.
func (g gathered) signatureOf(ctx context.Context, a manifest.Artifact) (verify.Evidence, error) {
	if g.isSealedOnly(a) {
		return g.release.manifest.evidence, nil
	}
	if a.Signature == "" {
		return verify.Evidence{}, verdict.Refuse(verdict.Unsigned, a.Name, "the manifest names no signature for it")
	}
	raw, err := g.release.readListed(ctx, a.Signature)
	if err != nil {
		return verify.Evidence{}, evidenceError(verdict.Unsigned, a.Name, a.Signature, err)
	}
	e, err := g.release.Verifier.Blob(raw, a.Digests)
	return e, inBundle(a.Signature, a.Name, err)
}

// inBundle adds to an error of the verifier which bundle and artifact it is
// about, which the verifier does not know.
func inBundle(bundle, artifact string, err error) error {
	var said *verdict.Error
	if !errors.As(err, &said) || said.Finding.Subject != "bundle" {
		return err
	}
	f := said.Finding
	f.Subject = artifact
	if bundle != artifact {
		f.Message = bundle + ": " + f.Message
	}
	return &verdict.Error{Finding: f, Cause: err}
}

// isSealedOnly reports whether a file was planned to have no signature of its
// own: the manifest, which the release identity signed, is its signature then.
// A file with a planned or listed signature must have it.
func (g gathered) isSealedOnly(a manifest.Artifact) bool {
	bundle := plan.BundleName(a.Name)
	_, listed := g.release.manifest.Find(bundle)
	_, planned := g.planned.Find(bundle)
	return a.Signature == "" && !listed && !planned
}

// readListed reads a listed file and compares its digest with the manifest, so that
// only signed bytes are used.
func (s *sealed) readListed(ctx context.Context, name string) ([]byte, error) {
	a, ok := s.manifest.Find(name)
	if !ok || a.IsImage() {
		return nil, verdict.Refuse(verdict.EvidenceMissing, name, "the manifest does not list this file")
	}
	raw, err := store.Read(ctx, s.Files, name, maxDocument)
	if errors.Is(err, store.ErrNotFound) {
		return nil, verdict.Wrap(verdict.Missing, name, err)
	}
	if err != nil {
		return nil, err
	}
	if !a.Digests.SHA256.Equal(digest.Of(digest.SHA256, raw)) {
		return nil, verdict.Refuse(verdict.Tampered, name, "the bytes are not the ones that were signed")
	}
	return raw, nil
}

// evidenceError says which evidence of an artifact is unusable. An unavailable
// place stays unavailable.
func evidenceError(code verdict.Code, artifact, evidence string, err error) error {
	if verdict.OutcomeOf(err) != verdict.Refused {
		return err
	}
	return verdict.Refuse(code, artifact, "the evidence %s is unusable: %v", evidence, err).Advise(fixEvidence)
}

// fixEvidence is the next act where evidence is missing or changed. It cannot
// be made again: new evidence has other bytes than those in the manifest.
const fixEvidence = "restore the evidence from the sealed release; do not use the artifact without it"
