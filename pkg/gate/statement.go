package gate

import (
	"bytes"
	"context"

	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// checkStatement holds the statement for in-toto's clients, if one is planned,
// against the manifest: who reads the one must not be told something else than
// who reads the other.
func (d *decision) checkStatement(ctx context.Context) {
	for _, a := range d.planned.Artifacts {
		if listed, there := d.manifest.Find(a.Name); there && a.IsStatement() && !d.bad[a.Name] {
			if err := d.saysTheSame(ctx, listed); err != nil {
				d.fail(a.Name, err)
			}
		}
	}
}

func (d *decision) saysTheSame(ctx context.Context, a release.Artifact) error {
	raw, err := d.listed(ctx, a.Name)
	if err != nil {
		return err
	}
	e, err := d.Verifier.Attestation(raw)
	if err != nil {
		return inBundle(a.Name, a.Name, err)
	}
	proof, err := d.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: intoto.Release, Subject: a.Name, Whole: true})
	if err != nil {
		return err
	}
	want, err := d.manifest.InToto(a.Name)
	if err != nil {
		return err
	}
	if !bytes.Equal(e.Statement().Raw(), want.Raw()) {
		return verdict.Refuse(verdict.Conflict, a.Name, "the statement about the whole release and the manifest disagree")
	}
	d.prove(proof)
	return nil
}
