package gate

import (
	"context"
	"errors"
	"sync"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// maxDocument bounds an SBOM or a configuration file.
const maxDocument = 64 << 20

// checkPlan expands the published release.yaml and compares: the manifest may
// list neither more nor less than what the source planned.
func (d *decision) checkPlan(ctx context.Context) {
	raw, err := d.listed(ctx, plan.ConfigName)
	if err != nil {
		d.fail(plan.ConfigName, err)
		return
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		d.fail(plan.ConfigName, verdict.Refuse(verdict.ManifestParse, plan.ConfigName, "the published plan does not parse: %v", err))
		return
	}
	p, err := config.Expand(d.manifest.Version)
	if err != nil {
		d.fail(plan.ConfigName, verdict.Refuse(verdict.ManifestParse, plan.ConfigName, "the published plan does not expand: %v", err))
		return
	}
	for _, want := range p.Artifacts {
		got, there := d.manifest.Find(want.Name)
		if !there || got.Class != want.Class || got.Platform != want.Platform || got.Step != want.Step {
			d.add(verdict.Find(verdict.PlanMissing, want.Name, "planned as %s of step %q, not so listed in the manifest", want.Class, want.Step))
		}
	}
	for _, got := range d.manifest.Artifacts {
		if _, planned := p.Find(got.Name); !planned {
			d.add(verdict.Find(verdict.PlanExtra, got.Name, "listed in the manifest, not planned in release.yaml"))
		}
	}
}

// check is one thing that is asked of an artifact. It returns what was proven,
// the zero Proof if passing it proves nothing by itself. Checks run side by
// side and change nothing of the decision.
type check func(context.Context, release.Artifact) (verdict.Proof, error)

// result is what the checks of one artifact came to.
type result struct {
	proofs []verdict.Proof
	errs   []error
}

// checkFileEvidence checks the evidence that the class of each file demands.
// Files that are bad already are left out: their evidence is of other bytes.
func (d *decision) checkFileEvidence(ctx context.Context) {
	var due []release.Artifact
	for _, a := range d.manifest.Files() {
		if !d.bad[a.Name] && len(d.checksOf(a.Class)) > 0 {
			due = append(due, a)
		}
	}
	results := make([]result, len(due))
	inParallel(len(due), func(i int) { results[i] = run(ctx, due[i], d.checksOf(due[i].Class)...) })
	for i, r := range results {
		d.take(due[i], r)
	}
}

func (d *decision) checksOf(c plan.Class) []check {
	switch c {
	case plan.Binary, plan.Archive, plan.Other:
		return []check{d.checkProvenance, d.checkSignature, d.checkSBOM}
	case plan.Sums:
		return []check{d.checkSignature}
	case plan.Provenance:
		return []check{d.checkRun}
	}
	return nil
}

// run does all checks of one artifact, also after one of them failed.
func run(ctx context.Context, a release.Artifact, checks ...check) (r result) {
	for _, c := range checks {
		proof, err := c(ctx, a)
		switch {
		case err != nil:
			r.errs = append(r.errs, err)
		case !proof.IsZero():
			r.proofs = append(r.proofs, proof)
		}
	}
	return r
}

// take adds a result to the decision.
func (d *decision) take(a release.Artifact, r result) {
	for _, err := range r.errs {
		d.fail(a.Name, err)
	}
	for _, p := range r.proofs {
		d.prove(p)
	}
}

// attested is a provenance bundle that was read and verified, or why not.
type attested struct {
	evidence        verify.Evidence
	unread, refused error
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
	got.evidence, got.refused = d.Verifier.Attestation(raw)
	return got
}

// checkProvenance demands that the builder vouched for these very bytes.
func (d *decision) checkProvenance(_ context.Context, a release.Artifact) (verdict.Proof, error) {
	if a.Provenance == "" {
		return verdict.Proof{}, verdict.Refuse(verdict.NoProvenance, a.Name, "the manifest names no provenance for it")
	}
	if a.Provenance != plan.ProvenanceName(a.Step) {
		return verdict.Proof{}, verdict.Refuse(verdict.NoProvenance, a.Name, "the manifest names the provenance %q, which is not of its step", a.Provenance)
	}
	got := d.attested[a.Provenance]()
	if got.unread != nil {
		return verdict.Proof{}, evidenceError(verdict.NoProvenance, a.Name, a.Provenance, got.unread)
	}
	if got.refused != nil {
		return verdict.Proof{}, got.refused
	}
	return d.Policy.Judge(got.evidence, policy.Ask{
		Role: policy.Builder, Kind: provenance.PredicateType, Subject: a.Name, Bytes: a.Digests,
	})
}

// checkRun holds what one provenance says against policy and manifest: an
// allowed builder, the canonical source, the manifest's commit and its run.
func (d *decision) checkRun(_ context.Context, a release.Artifact) (verdict.Proof, error) {
	got := d.attested[a.Name]()
	if err := errors.Join(got.unread, got.refused); err != nil {
		return verdict.Proof{}, err
	}
	e := got.evidence
	said, err := provenance.Parse(e.Statement())
	if err != nil {
		return verdict.Proof{}, err
	}
	if err := d.Policy.Provenance(e, said); err != nil {
		return verdict.Proof{}, err
	}
	return verdict.Proof{}, d.checkSaid(a, e, said)
}

// checkSaid compares what a provenance says with the manifest.
func (d *decision) checkSaid(a release.Artifact, e verify.Evidence, said provenance.Provenance) error {
	params, run := said.BuildDefinition.ExternalParameters, said.RunDetails.Metadata.InvocationID
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, a.Name, "%s", message).Differ(want, got).Citing(e.Bundle())}
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

// checkSignature demands the release identity's signature over these bytes.
func (d *decision) checkSignature(ctx context.Context, a release.Artifact) (verdict.Proof, error) {
	if a.Signature == "" {
		return verdict.Proof{}, verdict.Refuse(verdict.Unsigned, a.Name, "the manifest names no signature for it")
	}
	raw, err := d.listed(ctx, a.Signature)
	if err != nil {
		return verdict.Proof{}, evidenceError(verdict.Unsigned, a.Name, a.Signature, err)
	}
	e, err := d.Verifier.Blob(raw, a.Digests)
	if err != nil {
		return verdict.Proof{}, err
	}
	return d.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: "blob", Subject: a.Name, Bytes: a.Digests})
}

// checkSBOM demands an SBOM that describes these bytes.
func (d *decision) checkSBOM(ctx context.Context, a release.Artifact) (verdict.Proof, error) {
	if a.SBOM == "" {
		return verdict.Proof{}, verdict.Refuse(verdict.NoSBOM, a.Name, "the manifest names no SBOM for it")
	}
	raw, err := d.listed(ctx, a.SBOM)
	if err != nil {
		return verdict.Proof{}, evidenceError(verdict.NoSBOM, a.Name, a.SBOM, err)
	}
	document, err := spdx.Parse(raw)
	if err != nil {
		return verdict.Proof{}, verdict.Refuse(verdict.NoSBOM, a.Name, "its SBOM %s does not parse: %v", a.SBOM, err)
	}
	if _, described := document.Describes(); !described.Equal(a.Digests.SHA256) {
		return verdict.Proof{}, &verdict.Error{Finding: verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM %s describes other bytes", a.SBOM).
			Differ(a.Digests.SHA256.String(), described.String())}
	}
	return verdict.Proof{}, nil
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
	return verdict.Refuse(code, artifact, "its evidence %s is not usable: %v", evidence, err)
}
