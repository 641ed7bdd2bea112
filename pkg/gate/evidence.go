package gate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/sbom/crosscheck"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// maxDocument bounds an SBOM or a configuration file.
const maxDocument = 64 << 20

// checkPlan expands the published release.yaml and compares: the manifest may
// list neither more nor less than what the source planned.
func (d *decision) checkPlan(ctx context.Context) {
	if d.Policy.Plan() == policy.Off || d.Options.Scope.Depth != AllEvidence {
		return
	}
	raw, err := d.listed(ctx, plan.ConfigName)
	if err != nil {
		d.weigh(d.Policy.Plan(), verdict.FindingOf(plan.ConfigName, err))
		return
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		d.weigh(d.Policy.Plan(), verdict.Find(verdict.ManifestParse, plan.ConfigName, "the published plan does not parse: %v", err))
		return
	}
	d.checkLock(ctx, config)
	chosen := d.parameters()
	p, err := config.ExpandWith(d.manifest.Version, chosen)
	if err != nil {
		d.weigh(d.Policy.Plan(), verdict.Find(verdict.ManifestParse, plan.ConfigName, "the published plan does not expand: %v", err))
		return
	}
	mode := d.Policy.Plan()
	if !maps.Equal(p.Parameters, chosen) {
		d.weigh(mode, verdict.Find(verdict.ParamValue, plan.ConfigName, "the provenance does not name every parameter that release.yaml declares"))
	}
	p = d.withLegacy(p)
	d.planned = p
	asked := d.askedOf(p)
	for _, want := range p.Artifacts {
		got, there := d.manifest.Find(want.Name)
		if !there && asked[want.Name] {
			continue // what it is evidence of is found to lack it
		}
		if !there || got.Class != want.Class || got.Platform != want.Platform || got.Step != want.Step {
			d.weigh(mode, verdict.Find(verdict.PlanMissing, want.Name, "planned as %s of step %q, not so listed in the manifest", want.Class, want.Step))
		}
	}
	for _, got := range d.manifest.Artifacts {
		if _, planned := p.Find(got.Name); !planned {
			d.weigh(mode, verdict.Find(verdict.PlanExtra, got.Name, "listed in the manifest, not planned in release.yaml"))
		}
	}
}

// askedOf names the planned evidence that the policy requires of an artifact
// anyway. That it is absent is said of the artifact, and can be excepted there.
func (d *decision) askedOf(p plan.Plan) map[string]bool {
	asked := map[string]bool{}
	for _, a := range p.Artifacts {
		if _, listed := d.manifest.Find(a.Name); !listed {
			continue
		}
		for check, name := range map[policy.Check]string{
			policy.SBOM: plan.SBOMName(a.Name), policy.Signature: plan.BundleName(a.Name),
		} {
			if d.Policy.Asks(d.Stage, a.Class, check) == policy.Require {
				asked[name] = true
			}
		}
	}
	return asked
}

// parameters are what the provenances say that the release was built with. A
// build has one set of them: two are a mix.
func (d *decision) parameters() map[string]string {
	var chosen map[string]string
	first := ""
	for _, a := range d.manifest.Artifacts {
		if a.Class != plan.Provenance {
			continue
		}
		got := d.attested[a.Name]()
		if got.unread != nil || got.refused != nil || got.run != nil && !d.vouchedAll(a.Name) {
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
			d.weigh(d.Policy.Plan(), verdict.Find(verdict.BuildMix, a.Name, "built with other parameters than %s", first))
		}
	}
	return chosen
}

// checkFileEvidence asks the policy about each file, with the evidence that
// the manifest names for it. Files that are bad already are left out: their
// evidence is of other bytes.
func (d *decision) checkFileEvidence(ctx context.Context) {
	var due []release.Artifact
	for _, a := range d.manifest.Files() {
		if d.covers(a) && !d.bad[a.Name] && d.asks(a.Class) {
			due = append(due, a)
		}
	}
	verdicts := make([]*verdict.Verdict, len(due))
	inParallel(len(due), func(i int) { verdicts[i] = d.judge(ctx, due[i]) })
	for i, v := range verdicts {
		d.take(due[i], v)
	}
}

// judge brings the evidence of one artifact before the policy. It changes
// nothing of the decision: artifacts are judged side by side.
func (d *decision) judge(ctx context.Context, a release.Artifact) *verdict.Verdict {
	q := d.question(a)
	evidence := d.late[a.Digests.SHA256]
	bring := func(check policy.Check, from func(context.Context, release.Artifact) (verify.Evidence, error)) {
		if !slices.Contains(policy.ChecksOf(a.Class), check) || d.Policy.Asks(d.Stage, a.Class, check) == policy.Off {
			return
		}
		e, err := from(ctx, a)
		if err != nil {
			q.Why[check] = err
			return
		}
		evidence = append(slices.Clip(evidence), e)
	}
	if by, is := d.vouched[a.Name]; is {
		evidence = append(slices.Clip(evidence), by.more...)
	} else {
		bring(policy.Provenance, d.provenanceOf)
	}
	if a.IsImage() {
		bring(policy.Signature, d.imageSignatureOf)
		if d.Policy.Asks(d.Stage, a.Class, policy.Summary) != policy.Off {
			var summaries []verify.Evidence
			summaries, q.Why[policy.Summary] = d.summariesOf(ctx, a)
			evidence = append(evidence, summaries...)
		}
	} else {
		q.Sealed = d.isSealedOnly(a)
		bring(policy.Signature, d.signatureOf)
	}
	mode := d.Policy.Asks(d.Stage, a.Class, policy.SBOM)
	var crossed []verdict.Finding
	if mode != policy.Off {
		document, err := d.documentOf(ctx, a)
		_, q.SBOM = document.Describes()
		q.Why[policy.SBOM], q.Omitted = err, crosscheck.Omitted(document)
		if err == nil && q.SBOM.Equal(a.Digests.SHA256) { // else that alone is said
			crossed = d.cross(ctx, a, document)
		}
	}
	v := d.hearing.Decide(evidence, q)
	if mode == policy.Require {
		v.Add(crossed...)
	} else {
		v.Warn(crossed...)
	}
	return v
}

// question asks the policy about an artifact.
func (d *decision) question(a release.Artifact) policy.Question {
	return policy.Question{
		Stage: d.Stage, Class: a.Class, Subject: a.Name, Bytes: a.Digests, Version: d.manifest.Version.String(),
		Commit: d.manifest.Source.Commit, At: d.Now, Why: map[policy.Check]error{}, Named: true,
		ByDigest: a.IsImage() && d.isGiven(), // nobody but us calls an image by our name
	}
}

// take adds a verdict on one artifact to the decision. What follows from
// provenance that was refused as a whole is said once, of the provenance.
func (d *decision) take(a release.Artifact, v *verdict.Verdict) {
	said := func(f verdict.Finding) bool { return f.Code == verdict.NoProvenance && d.refused(a) }
	for _, f := range v.Findings {
		d.bad[a.Name] = true
		if !said(f) {
			d.v.Add(f)
		}
	}
	d.v.Warn(slices.DeleteFunc(v.Warnings, said)...)
	d.v.Proofs = append(d.v.Proofs, v.Proofs...)
}

// refused reports whether the provenance of an artifact has a finding of its
// own.
func (d *decision) refused(a release.Artifact) bool {
	got := d.attested[a.Provenance]
	return got != nil && got().run != nil
}

// attested is a provenance bundle that was read and verified, or why not, and
// why its run is not one that the policy and the manifest allow.
type attested struct {
	evidence             verify.Evidence
	claim                provenance.Claim // what it says, if it was not refused
	unread, refused, run error
}

// planAttested prepares each provenance bundle to be read and verified once,
// by whoever needs it first: it may speak of many artifacts. The map does not
// change afterwards.
func (d *decision) planAttested(ctx context.Context) {
	d.attested = map[string]func() attested{}
	for _, a := range d.manifest.Artifacts {
		name := a.Provenance
		if a.Class == plan.Provenance {
			name = a.Name
		}
		if _, planned := d.attested[name]; !planned && name != "" {
			d.attested[name] = sync.OnceValue(func() attested { return d.attest(ctx, name) })
		}
	}
}

func (d *decision) attest(ctx context.Context, name string) (got attested) {
	raw, err := d.listed(ctx, name)
	if err != nil {
		return attested{unread: err}
	}
	got.evidence, err = d.Verifier.Attestation(raw)
	if got.refused = inBundle(name, name, err); got.refused == nil {
		got.run = d.checkRun(name, got.evidence)
		// Many artifacts rest on one provenance, and it can name thousands: what
		// does not parse is found by the check of its run.
		got.claim, _ = provenance.Read(got.evidence.Statement())
	}
	return got
}

// checkRuns asks of each provenance that is listed whether its run is one that
// policy and manifest allow. It counts as much as provenance counts for what
// it was made for.
func (d *decision) checkRuns() {
	for _, a := range d.manifest.Artifacts {
		if a.Class != plan.Provenance || d.bad[a.Name] || d.Options.Scope.Depth != AllEvidence {
			continue
		}
		mode := d.weightOf(a)
		if mode == policy.Off {
			continue
		}
		got := d.attested[a.Name]()
		if err := errors.Join(got.unread, got.refused, got.run); err != nil {
			d.weigh(mode, verdict.FindingOf(a.Name, err))
		}
	}
}

// weightOf is how much a provenance counts: as much as it does for anything
// that rests on it, and fully when nothing does, for then it was misplaced.
func (d *decision) weightOf(of release.Artifact) policy.Mode {
	strongest, used := policy.Off, !d.covers(of)
	for _, a := range d.manifest.Artifacts {
		if a.Provenance != of.Name || !d.covers(a) {
			continue
		}
		mode := d.Policy.Asks(d.Stage, a.Class, policy.Provenance)
		if _, is := d.vouched[a.Name]; is {
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
func (d *decision) provenanceOf(_ context.Context, a release.Artifact) (verify.Evidence, error) {
	switch {
	case a.Provenance == "":
		return verify.Evidence{}, verdict.Refuse(verdict.NoProvenance, a.Name, "the manifest names no provenance for it")
	case a.Provenance != plan.ProvenanceName(a.Step) && (a.Step != "" || !d.isGiven()):
		return verify.Evidence{}, verdict.Refuse(verdict.NoProvenance, a.Name, "the manifest names the provenance %q, which is not of its step", a.Provenance)
	}
	got := d.attested[a.Provenance]()
	switch {
	case got.unread != nil:
		return verify.Evidence{}, evidenceError(verdict.NoProvenance, a.Name, a.Provenance, got.unread)
	case got.refused != nil:
		return verify.Evidence{}, got.refused
	case got.run != nil:
		return verify.Evidence{}, verdict.Refuse(verdict.NoProvenance, a.Name, "its provenance %s was refused", a.Provenance)
	}
	if d.isTheirs(got.evidence) {
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
func (d *decision) checkRun(name string, e verify.Evidence) error {
	if d.isTheirs(e) {
		return d.checkTheirs(name, e)
	}
	said, err := provenance.Parse(e.Statement())
	if err != nil {
		return err
	}
	if err := d.Policy.Provenance(e, d.manifest.Version.String()); err != nil {
		return err
	}
	return d.checkSaid(name, e, said)
}

// checkSaid compares what a provenance says with the manifest.
func (d *decision) checkSaid(name string, e verify.Evidence, said provenance.Provenance) error {
	params, run := said.BuildDefinition.ExternalParameters, said.RunDetails.Metadata.InvocationID
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, name, "%s", message).Differ(want, got).Citing(e.Bundle())}
	}
	switch {
	case said.SourceCommit() != d.manifest.Source.Commit:
		return differ(verdict.SourceCommit, "built from another commit than the manifest names", d.manifest.Source.Commit, said.SourceCommit())
	case params.Version != d.manifest.Version.String():
		return differ(verdict.Version, "provenance of another version", d.manifest.Version.String(), params.Version)
	case params.Config.SHA256 != d.manifest.Config.Hex():
		return differ(verdict.NotBound, "built from another release.yaml", d.manifest.Config.Hex(), params.Config.SHA256)
	case lockOf(said) != d.manifest.Lock.Hex():
		return differ(verdict.NotBound, "built from another "+plan.LockName, d.manifest.Lock.Hex(), lockOf(said))
	case len(d.manifest.Runs) == 0 || run != d.manifest.Runs[0].ID:
		return differ(verdict.BuildMix, "built by a run that the manifest does not name", runOf(d.manifest), run)
	}
	for _, r := range said.BuildDefinition.ResolvedDependencies {
		a, listed := d.manifest.Find(r.Name)
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

func runOf(m release.Manifest) string {
	if len(m.Runs) == 0 {
		return "no run"
	}
	return m.Runs[0].ID
}

// signatureOf is the signature that the manifest names for a file.
func (d *decision) signatureOf(ctx context.Context, a release.Artifact) (verify.Evidence, error) {
	if d.isSealedOnly(a) {
		return d.sealed, nil
	}
	if a.Signature == "" {
		return verify.Evidence{}, verdict.Refuse(verdict.Unsigned, a.Name, "the manifest names no signature for it")
	}
	raw, err := d.listed(ctx, a.Signature)
	if err != nil {
		return verify.Evidence{}, evidenceError(verdict.Unsigned, a.Name, a.Signature, err)
	}
	e, err := d.Verifier.Blob(raw, a.Digests)
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
func (d *decision) isSealedOnly(a release.Artifact) bool {
	bundle := plan.BundleName(a.Name)
	_, listed := d.manifest.Find(bundle)
	_, planned := d.planned.Find(bundle)
	return a.Signature == "" && !listed && !planned
}

// listed reads a listed file and checks it against the manifest while it is
// read: the bytes used are the bytes that were signed for.
func (d *decision) listed(ctx context.Context, name string) ([]byte, error) {
	a, ok := d.manifest.Find(name)
	if !ok || a.IsImage() {
		return nil, verdict.Refuse(verdict.EvidenceMissing, name, "the manifest does not list it")
	}
	raw, err := store.Read(ctx, d.Files, name, maxDocument)
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
