package gate

import (
	"context"
	"errors"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// checkSignoff asks for the sign-off of the release, where the policy requires
// one: of the release.yaml that the manifest lists, which is the one that
// provenance was held against, and of its commit. It is evidence beside the
// release, and not listed: it can be signed before or after the seal.
func (d *decision) checkSignoff(ctx context.Context) {
	mode := d.Policy.NeedsSignoff(d.Stage)
	switch {
	case mode == policy.Off:
		return
	case d.Options.Scope.Depth != AllEvidence:
		d.leave("sign-off")
		return
	}
	proof, err := d.signedOff(ctx)
	if mode == policy.Warn {
		d.warnOfSignoff(proof, err)
		return
	}
	d.v.Counts.Required++
	if err != nil {
		d.v.Add(verdict.FindingOf(releasesignoff.Name, err))
		return
	}
	d.v.Counts.Verified++
	d.prove(proof)
}

// warnOfSignoff says what a sign-off is worth that is not required yet, or no
// longer.
func (d *decision) warnOfSignoff(proof verdict.Proof, err error) {
	if err != nil {
		d.v.Warn(verdict.FindingOf(releasesignoff.Name, err))
		return
	}
	d.prove(proof)
}

func (d *decision) signedOff(ctx context.Context) (verdict.Proof, error) {
	raw, err := store.Read(ctx, d.Files, releasesignoff.Name, maxLateSize)
	if errors.Is(err, store.ErrNotFound) {
		return verdict.Proof{}, verdict.Refuse(verdict.SignoffMissing, releasesignoff.Name, "nobody signed off the release: the place has no such file")
	}
	if err != nil {
		return verdict.Proof{}, err
	}
	e, err := d.Verifier.Attestation(raw)
	if err != nil {
		return verdict.Proof{}, inBundle(releasesignoff.Name, releasesignoff.Name, err)
	}
	return d.believeSignoff(e)
}

func (d *decision) believeSignoff(e verify.Evidence) (verdict.Proof, error) {
	return d.Policy.Signoff(e, policy.SignedRelease{Config: d.manifest.Config, Commit: d.manifest.Source.Commit, Milestone: policy.MilestoneOf(d.manifest.Version)}, d.Now)
}
