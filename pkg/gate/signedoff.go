package gate

import (
	"context"
	"errors"
	"fmt"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// SignedOff decides about the sign-off of a release alone, as if it were required
// at the stage that is asked about: whether the release that the signed manifest
// speaks of has one that counts. It is for those who ask about many releases
// before it is required: of the release nothing else is read, and nothing else is
// proven.
func SignedOff(ctx context.Context, req Request) *verdict.Verdict {
	v := verdict.New(fmt.Sprintf("sign-off of release %s at %s", req.Version, req.Files.URI()), req.Now)
	v.Policy, v.TrustRoot = req.Policy.Digest(), req.Verifier.Root().Digest()
	v.Scope.Checks, v.Scope.Left = []string{"manifest", "sign-off"}, []string{"the rest of the release"}
	d := &decision{Request: req, v: v, bad: map[string]bool{}, hearing: req.Policy.Hear()}
	v.Counts.Required = 2
	if err := errors.Join(req.Policy.Life(req.Now), req.Policy.Root(req.Verifier.Root().IsLab())); err != nil {
		v.AddError("policy "+req.Policy.Name(), err)
		return v
	}
	if err := d.readManifest(ctx); err != nil {
		v.AddError(releasemanifest.Name, err)
		return v
	}
	v.Counts.Verified = 1
	proof, err := d.signedOff(ctx)
	if err != nil {
		v.Add(verdict.FindingOf(releasesignoff.Name, err))
	} else {
		v.Counts.Verified++
		d.prove(proof)
	}
	checkClock(v)
	d.waive()
	return v
}
