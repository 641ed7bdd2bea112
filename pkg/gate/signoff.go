package gate

import (
	"context"
	"errors"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkSignoff checks the sign-off of the release, where the policy requires
// one. It must name the release.yaml that the manifest lists, and its commit.
// It lies beside the release and is not listed, so it can be signed before or
// after the seal.
func checkSignoff(ctx context.Context, g gathered) (f facts) {
	mode := g.release.Policy.NeedsSignoff(g.release.Stage)
	switch {
	case mode == policy.Off:
		return f
	case g.release.Options.Scope.Depth != allEvidence:
		f.leave("sign-off")
		return f
	}
	proof, err := g.release.signedOff(ctx, g.release.manifest)
	if mode == policy.Require {
		f.counted = []counted{{name: releasesignoff.Name, class: "sign-off"}}
	}
	switch {
	case err == nil:
		f.prove(proof)
	case mode == policy.Require:
		f.fail(releasesignoff.Name, err)
	default:
		f.weigh(mode, verdict.FindingOf(releasesignoff.Name, err))
	}
	return f
}

// signedOff returns the proof of a sign-off that counts.
func (r Request) signedOff(ctx context.Context, m signedManifest) (verdict.Proof, error) {
	raw, err := store.Read(ctx, r.Files, releasesignoff.Name, maxLateSize)
	if errors.Is(err, store.ErrNotFound) {
		return verdict.Proof{}, verdict.Refuse(verdict.SignoffMissing, releasesignoff.Name, "the release has no sign-off: the place has no such file")
	}
	if err != nil {
		return verdict.Proof{}, err
	}
	e, err := r.Verifier.Attestation(raw)
	if err != nil {
		return verdict.Proof{}, inBundle(releasesignoff.Name, releasesignoff.Name, err)
	}
	return r.Policy.Signoff(e, policy.SignedRelease{Config: m.Config, Commit: m.Source.Commit, Milestone: policy.MilestoneOf(m.Version)}, r.Now)
}
