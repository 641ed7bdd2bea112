package gate

import (
	"context"
	"errors"
	"fmt"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
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

// SignedOff decides about the sign-off of a release alone, as if the stage
// required one: whether the release that the signed manifest names has a
// sign-off that counts. It lets callers ask about many releases before the
// requirement is enforced. Nothing else of the release is read or proven.
func SignedOff(ctx context.Context, req Request) *verdict.Verdict {
	j := req.terms().begin(fmt.Sprintf("sign-off of release %s at %s", req.Version, req.Files.URI()))
	j.v.Scope.Checks, j.v.Scope.Left = []string{"manifest", "sign-off"}, []string{"the rest of the release"}
	if j.refused() {
		return j.v
	}
	m, found, err := readManifest(ctx, req)
	j.addFacts(found)
	if err != nil {
		j.fail(releasemanifest.Name, err)
		return j.v
	}
	proof, err := req.signedOff(ctx, m)
	signed := facts{counted: []counted{{name: releasesignoff.Name}}}
	if err != nil {
		signed.fail(releasesignoff.Name, err)
	} else {
		signed.prove(proof)
	}
	j.addFacts(signed)
	j.count()
	return j.end(req.Version, subjectsOf(m.Manifest))
}
