package gate

import (
	"context"
	"fmt"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
