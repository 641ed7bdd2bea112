package gate

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
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
		if !there || got.Class != want.Class || got.Platform != want.Platform {
			d.add(verdict.Find(verdict.PlanMissing, want.Name, "planned as %s, not so listed in the manifest", want.Class))
		}
	}
	for _, got := range d.manifest.Artifacts {
		if _, planned := p.Find(got.Name); !planned {
			d.add(verdict.Find(verdict.PlanExtra, got.Name, "listed in the manifest, not planned in release.yaml"))
		}
	}
}

// checkFileEvidence asks of every built file: provenance by the builder, a
// signature by the release identity, an SBOM of these bytes.
func (d *decision) checkFileEvidence(ctx context.Context) {
	for _, a := range d.manifest.Files() {
		if d.bad[a.Name] {
			continue
		}
		switch a.Class {
		case plan.Binary, plan.Archive, plan.Other:
			d.check(ctx, a, d.checkProvenance, d.checkSignature, d.checkSBOM)
		case plan.Sums:
			d.check(ctx, a, d.checkSignature)
		case plan.Provenance:
			d.check(ctx, a, d.checkRun)
		}
	}
}

func (d *decision) check(ctx context.Context, a release.Artifact, checks ...func(context.Context, release.Artifact) error) {
	for _, check := range checks {
		if err := check(ctx, a); err != nil {
			d.fail(a.Name, err)
		}
	}
}

// checkProvenance demands that the builder vouched for these very bytes.
func (d *decision) checkProvenance(ctx context.Context, a release.Artifact) error {
	if a.Provenance == "" {
		return verdict.Refuse(verdict.NoProvenance, a.Name, "the manifest names no provenance for it")
	}
	e, known := d.bundles[a.Provenance]
	if !known {
		raw, err := d.listed(ctx, a.Provenance)
		if err != nil {
			return evidenceError(verdict.NoProvenance, a.Name, a.Provenance, err)
		}
		if e, err = d.Verifier.Attestation(raw); err != nil {
			return err
		}
		d.bundles[a.Provenance] = e
	}
	proof, err := d.Policy.Judge(e, policy.Ask{
		Role: policy.Builder, Kind: provenance.PredicateType, Subject: a.Name, Bytes: a.Digests,
	})
	if err != nil {
		return err
	}
	d.prove(proof)
	return nil
}

// checkRun holds what one provenance says against policy and manifest: an
// allowed builder, the canonical source, the manifest's commit and its run.
func (d *decision) checkRun(ctx context.Context, a release.Artifact) error {
	raw, err := d.listed(ctx, a.Name)
	if err != nil {
		return err
	}
	e, err := d.Verifier.Attestation(raw)
	if err != nil {
		return err
	}
	said, err := provenance.Parse(e.Statement())
	if err != nil {
		return err
	}
	if err := d.Policy.Provenance(e, said); err != nil {
		return err
	}
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
	case len(d.manifest.Runs) == 0 || run != d.manifest.Runs[0].ID:
		return differ(verdict.BuildMix, "built by a run that the manifest does not name", runOf(d.manifest), run)
	}
	return nil
}

func runOf(m release.Manifest) string {
	if len(m.Runs) == 0 {
		return "no run"
	}
	return m.Runs[0].ID
}

// checkSignature demands the release identity's signature over these bytes.
func (d *decision) checkSignature(ctx context.Context, a release.Artifact) error {
	if a.Signature == "" {
		return verdict.Refuse(verdict.Unsigned, a.Name, "the manifest names no signature for it")
	}
	raw, err := d.listed(ctx, a.Signature)
	if err != nil {
		return evidenceError(verdict.Unsigned, a.Name, a.Signature, err)
	}
	e, err := d.Verifier.Blob(raw, a.Digests)
	if err != nil {
		return err
	}
	proof, err := d.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: "blob", Subject: a.Name, Bytes: a.Digests})
	if err != nil {
		return err
	}
	d.prove(proof)
	return nil
}

// checkSBOM demands an SBOM that describes these bytes.
func (d *decision) checkSBOM(ctx context.Context, a release.Artifact) error {
	if a.SBOM == "" {
		return verdict.Refuse(verdict.NoSBOM, a.Name, "the manifest names no SBOM for it")
	}
	raw, err := d.listed(ctx, a.SBOM)
	if err != nil {
		return evidenceError(verdict.NoSBOM, a.Name, a.SBOM, err)
	}
	document, err := spdx.Parse(raw)
	if err != nil {
		return verdict.Refuse(verdict.NoSBOM, a.Name, "its SBOM %s does not parse: %v", a.SBOM, err)
	}
	if _, described := document.Describes(); !described.Equal(a.Digests.SHA256) {
		return &verdict.Error{Finding: verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM %s describes other bytes", a.SBOM).
			Differ(a.Digests.SHA256.String(), described.String())}
	}
	return nil
}

// listed reads a listed file and checks it against the manifest while it is
// read: the bytes used are the bytes that were signed for.
func (d *decision) listed(ctx context.Context, name string) ([]byte, error) {
	a, ok := d.manifest.Find(name)
	if !ok || a.IsImage() {
		return nil, verdict.Refuse(verdict.EvidenceMissing, name, "the manifest does not list it")
	}
	raw, err := readBounded(ctx, d.Files, name, maxDocument)
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
