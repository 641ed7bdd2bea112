package gate

import (
	"bytes"
	"context"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkStatement compares the in-toto release statement, if one is planned,
// with the manifest: both must tell their readers the same.
func checkStatement(ctx context.Context, g gathered) (f facts) {
	for _, a := range g.planned.Artifacts {
		listed, there := g.release.manifest.Find(a.Name)
		if !there || !a.IsStatement() || !g.holds(a.Name) {
			continue
		}
		proof, err := g.saysTheSame(ctx, listed)
		if err != nil {
			f.fail(a.Name, err)
			continue
		}
		f.prove(proof)
	}
	return f
}

func (g gathered) saysTheSame(ctx context.Context, a manifest.Artifact) (verdict.Proof, error) {
	raw, err := g.release.readListed(ctx, a.Name)
	if err != nil {
		return verdict.Proof{}, err
	}
	e, err := g.release.Verifier.Attestation(raw)
	if err != nil {
		return verdict.Proof{}, inBundle(a.Name, a.Name, err)
	}
	proof, err := g.release.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: intoto.Release, Subject: a.Name, Whole: true})
	if err != nil {
		return verdict.Proof{}, err
	}
	want, err := g.release.manifest.InToto(a.Name)
	if err != nil {
		return verdict.Proof{}, err
	}
	if !bytes.Equal(e.Statement().Raw(), want.Raw()) {
		return verdict.Proof{}, verdict.Refuse(verdict.Conflict, a.Name, "the in-toto release statement differs from the manifest")
	}
	return proof, nil
}
