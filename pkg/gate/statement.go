package gate

import (
	"bytes"
	"context"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkStatement compares each planned file about the whole release for other
// readers with the manifest: all must tell their readers the same.
func checkStatement(ctx context.Context, g gathered) (f facts) {
	for _, a := range g.planned.Statements() {
		listed, there := g.release.manifest.Find(a.Name)
		if !there || !g.holds(a.Name) {
			continue
		}
		raw, err := g.release.readListed(ctx, a.Name)
		switch {
		case err != nil:
			f.fail(a.Name, err)
		case a.IsProvenanceLines():
			f.fail(a.Name, g.release.manifest.CheckLines(a.Name, raw))
		default:
			proof, err := g.saysTheSame(listed, raw)
			if f.fail(a.Name, err); err == nil {
				f.prove(proof)
			}
		}
	}
	return f
}

func (g gathered) saysTheSame(a manifest.Artifact, raw []byte) (verdict.Proof, error) {
	e, err := g.release.Verifier.Attestation(raw)
	if err != nil {
		return verdict.Proof{}, inBundle(a.Name, a.Name, err)
	}
	want, err := g.release.manifest.ForReaders(g.planned, a.Artifact, e.Statement(), policy.Who(e))
	if err != nil {
		return verdict.Proof{}, err
	}
	proof, err := g.release.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: want.PredicateType(), Subject: a.Name, Whole: true})
	if err != nil {
		return verdict.Proof{}, err
	}
	if !bytes.Equal(e.Statement().Raw(), want.Raw()) {
		return verdict.Proof{}, verdict.Refuse(verdict.Conflict, a.Name, "the signed statement differs from the manifest")
	}
	return proof, nil
}
