package gate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxDocument bounds an SBOM or a configuration file.
const maxDocument = 64 << 20

// checkPlan expands the published release.yaml and compares: the manifest may
// list neither more nor less than what the source planned.
func (s *sealed) checkPlan(ctx context.Context, by vouching) (p plan.Plan, f facts) {
	mode := s.Policy.Plan()
	if mode == policy.Off || s.Options.Scope.Depth != AllEvidence {
		return p, f
	}
	raw, err := s.listed(ctx, plan.ConfigName)
	if err != nil {
		f.weigh(mode, verdict.FindingOf(plan.ConfigName, err))
		return p, f
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		f.weigh(mode, verdict.Find(verdict.ManifestParse, plan.ConfigName, "the published plan does not parse: %v", err))
		return p, f
	}
	if err := s.checkLock(ctx, config); err != nil {
		f.weigh(mode, verdict.FindingOf(plan.LockName, err))
	}
	chosen, mixed := s.parameters(by)
	f.weigh(mode, mixed...)
	p, err = config.ExpandWith(s.manifest.Version, chosen)
	if err != nil {
		f.weigh(mode, verdict.Find(verdict.ManifestParse, plan.ConfigName, "the published plan does not expand: %v", err))
		return plan.Plan{}, f
	}
	if !maps.Equal(p.Parameters, chosen) {
		f.weigh(mode, verdict.Find(verdict.ParamValue, plan.ConfigName, "the provenance does not name every parameter that release.yaml declares"))
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
			continue // what it is evidence of is found to lack it
		}
		if !there || got.Class != want.Class || got.Platform != want.Platform || got.Step != want.Step {
			differ = append(differ, verdict.Find(verdict.PlanMissing, want.Name, "planned as %s of step %q, not so listed in the manifest", want.Class, want.Step))
		}
	}
	for _, got := range s.manifest.Artifacts {
		if _, planned := p.Find(got.Name); !planned {
			differ = append(differ, verdict.Find(verdict.PlanExtra, got.Name, "listed in the manifest, not planned in release.yaml"))
		}
	}
	return differ
}

// askedOf names the planned evidence that the policy requires of an artifact
// anyway. That it is absent is said of the artifact, and can be excepted there.
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

// parameters are what the provenances say that the release was built with. A
// build has one set of them: two are a mix.
func (s *sealed) parameters(by vouching) (chosen map[string]string, mixed []verdict.Finding) {
	first := ""
	for _, a := range s.manifest.Artifacts {
		if a.Class != plan.Provenance {
			continue
		}
		got := s.builds[a.Name]()
		if got.unread != nil || got.refused != nil || got.run != nil && !s.vouchedAll(by, a.Name) {
			continue // its own finding says so
		}
		said, err := provenance.Parse(got.evidence.Statement())
		if err != nil {
			continue // as above
		}
		switch params := said.BuildDefinition.ExternalParameters.Parameters; {
		case first == "":
			chosen, first = params, a.Name
		case !maps.Equal(chosen, params):
			mixed = append(mixed, verdict.Find(verdict.BuildMix, a.Name, "built with other parameters than %s", first))
		}
	}
	return chosen, mixed
}

// filesToJudge are the files about which the policy is asked. Those with a finding
// are left out: their evidence is of other bytes.
func (g gathered) filesToJudge() (due []manifest.Artifact) {
	for _, a := range g.release.manifest.Files() {
		if g.release.covers(a) && g.holds(a.Name) && g.release.asks(a.Class) {
			due = append(due, a)
		}
	}
	return due
}

// items brings the evidence of artifacts, side by side.
func (g gathered) items(ctx context.Context, due []manifest.Artifact) facts {
	f := facts{items: make([]item, len(due))}
	inParallel(len(due), func(i int) { f.items[i] = g.item(ctx, due[i]) })
	return f
}

// item brings the evidence of one artifact.
func (g gathered) item(ctx context.Context, a manifest.Artifact) item {
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
		i.reported = verdict.NoProvenance // of the provenance itself
	}
	if mode := g.release.Policy.Asks(g.release.Stage, a.Class, policy.SBOM); mode != policy.Off {
		document, err := g.documentOf(ctx, a)
		_, q.SBOM = document.Describes()
		q.Why[policy.SBOM], q.Omitted = err, sbomcheck.Omitted(document)
		if err == nil && q.SBOM.Equal(a.Digests.SHA256) { // else that alone is said
			var compared facts
			compared.weigh(mode, g.cross(ctx, a, document)...)
			i.differences = compared.differences
		}
	}
	return i
}

// question asks the policy about an artifact.
func (s *sealed) question(a manifest.Artifact) policy.Question {
	return policy.Question{
		Stage: s.Stage, Class: a.Class, Subject: a.Name, Bytes: a.Digests, Version: s.manifest.Version.String(),
		Commit: s.manifest.Source.Commit, At: s.Now, Why: map[policy.Check]error{}, Named: true,
		ByDigest: a.IsImage() && s.manifest.isGiven(), // nobody but us calls an image by our name
	}
}

// isRefused reports whether the provenance of an artifact has a finding of its
// own.
func (s *sealed) isRefused(a manifest.Artifact) bool {
	got := s.builds[a.Provenance]
	return got != nil && got().run != nil
}

// provenances are the provenance bundles of a release, by file name. Each is read
// and verified once, by whoever needs it first: it may speak of many artifacts.
type provenances map[string]func() attested

// attested is a provenance bundle that was read and verified, or why not, and
// why its run is not one that the policy and the manifest allow.
type attested struct {
	evidence             verify.Evidence
	claim                provenance.Claim // what it says, if it was not refused
	unread, refused, run error
}

// openProvenances prepares each provenance bundle to be read.
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
	raw, err := s.listed(ctx, name)
	if err != nil {
		return attested{unread: err}
	}
	got.evidence, err = s.Verifier.Attestation(raw)
	if got.refused = inBundle(name, name, err); got.refused == nil {
		got.run = s.checkRun(name, got.evidence)
		// Many artifacts rest on one provenance, and it can name thousands: what
		// does not parse is found by the check of its run.
		got.claim, _ = provenance.Read(got.evidence.Statement())
	}
	return got
}

// checkRuns asks of each provenance that is listed whether its run is one that
// policy and manifest allow. It counts as much as provenance counts for what
// it was made for.
func checkRuns(_ context.Context, g gathered) (f facts) {
	for _, a := range g.release.manifest.Artifacts {
		if a.Class != plan.Provenance || g.release.Options.Scope.Depth != AllEvidence {
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

// weightOf is how much a provenance counts: as much as it does for anything
// that rests on it, and fully when nothing does, for then it was misplaced.
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

// provenanceOf is the provenance that the manifest names for an artifact.
func (g gathered) provenanceOf(_ context.Context, a manifest.Artifact) (verify.Evidence, error) {
	switch {
	case a.Provenance == "":
		return verify.Evidence{}, verdict.Refuse(verdict.NoProvenance, a.Name, "the manifest names no provenance for it")
	case a.Provenance != plan.ProvenanceName(a.Step) && (a.Step != "" || !g.release.manifest.isGiven()):
		return verify.Evidence{}, verdict.Refuse(verdict.NoProvenance, a.Name, "the manifest names the provenance %q, which is not of its step", a.Provenance)
	}
	got := g.release.builds[a.Provenance]()
	switch {
	case got.unread != nil:
		return verify.Evidence{}, evidenceError(verdict.NoProvenance, a.Name, a.Provenance, got.unread)
	case got.refused != nil:
		return verify.Evidence{}, got.refused
	case got.run != nil:
		return verify.Evidence{}, verdict.Refuse(verdict.NoProvenance, a.Name, "its provenance %s was refused", a.Provenance)
	}
	if g.release.manifest.isTheirs(got.evidence) {
		return got.evidence, nil // in whatever form its builder writes: the policy says which count
	}
	return ofKind(got.evidence, a.Name, provenance.PredicateType)
}

// ofKind refuses evidence that says something else than the name under which
// the manifest lists it.
func ofKind(e verify.Evidence, artifact, kind string) (verify.Evidence, error) {
	if e.Kind() != kind {
		return verify.Evidence{}, &verdict.Error{Finding: verdict.Find(verdict.PredicateType, artifact, "the evidence says something else").
			Differ(kind, e.Kind()).Citing(e.Bundle())}
	}
	return e, nil
}

// checkRun holds what one provenance says against policy and manifest: an
// allowed builder, the canonical source, the manifest's commit and its run.
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

// checkSaid compares what a provenance says with the manifest.
func (m signedManifest) checkSaid(name string, e verify.Evidence, said provenance.Provenance) error {
	params, run := said.BuildDefinition.ExternalParameters, said.RunDetails.Metadata.InvocationID
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, name, "%s", message).Differ(want, got).Citing(e.Bundle())}
	}
	switch {
	case said.SourceCommit() != m.Source.Commit:
		return differ(verdict.SourceCommit, "built from another commit than the manifest names", m.Source.Commit, said.SourceCommit())
	case params.Version != m.Version.String():
		return differ(verdict.Version, "provenance of another version", m.Version.String(), params.Version)
	case params.Config.SHA256 != m.Config.Hex():
		return differ(verdict.NotBound, "built from another release.yaml", m.Config.Hex(), params.Config.SHA256)
	case lockOf(said) != m.Lock.Hex():
		return differ(verdict.NotBound, "built from another "+plan.LockName, m.Lock.Hex(), lockOf(said))
	case len(m.Runs) == 0 || run != m.Runs[0].ID:
		return differ(verdict.BuildMix, "built by a run that the manifest does not name", runOf(m.Manifest), run)
	}
	for _, r := range said.BuildDefinition.ResolvedDependencies {
		a, listed := m.Find(r.Name)
		if used := r.Digest["sha256"]; listed && isBuilt(a) && used != "" && used != a.Digests.SHA256.Hex() {
			return differ(verdict.BuildMix, "made of another "+a.Name+" than the release has", a.Digests.SHA256.Hex(), used)
		}
	}
	return nil
}

// lockOf is the lock that the build says it was made from, empty when none.
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
	raw, err := g.release.listed(ctx, a.Signature)
	if err != nil {
		return verify.Evidence{}, evidenceError(verdict.Unsigned, a.Name, a.Signature, err)
	}
	e, err := g.release.Verifier.Blob(raw, a.Digests)
	return e, inBundle(a.Signature, a.Name, err)
}

// inBundle says which bundle it is of which the verifier speaks, and of what
// artifact: it knows no more than that it has one.
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

// isSealedOnly reports whether a file was to have no signature of its own: the
// manifest, a statement of the release identity about all of them, is its
// signature. What was planned to have one, or has one listed, must have it.
func (g gathered) isSealedOnly(a manifest.Artifact) bool {
	bundle := plan.BundleName(a.Name)
	_, listed := g.release.manifest.Find(bundle)
	_, planned := g.planned.Find(bundle)
	return a.Signature == "" && !listed && !planned
}

// listed reads a listed file and checks it against the manifest while it is
// read: the bytes used are the bytes that were signed for.
func (s *sealed) listed(ctx context.Context, name string) ([]byte, error) {
	a, ok := s.manifest.Find(name)
	if !ok || a.IsImage() {
		return nil, verdict.Refuse(verdict.EvidenceMissing, name, "the manifest does not list it")
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

// evidenceError says which evidence of an artifact is gone, unless the world
// did not answer: then that stays what it is.
func evidenceError(code verdict.Code, artifact, evidence string, err error) error {
	if verdict.OutcomeOf(err) != verdict.Refused {
		return err
	}
	return verdict.Refuse(code, artifact, "its evidence %s is not usable: %v", evidence, err).Advise(fixEvidence)
}

// fixEvidence is the next act where evidence was made, and is not there as it
// was: made anew it would be other bytes than the manifest lists.
const fixEvidence = "restore the evidence from the sealed release; do not use the artifact without it"
