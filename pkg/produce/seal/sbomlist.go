package seal

import (
	"context"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sbomList is the statement that lists the planned SBOMs with their bytes in
// the workspace.
func (l signingInput) sbomList(ctx context.Context) (intoto.Statement, error) {
	m := manifest.Manifest{Name: l.Plan.Name, Version: l.Plan.Version}
	for _, a := range l.Plan.Artifacts {
		if a.Class != plan.SBOM {
			continue
		}
		set, _, err := hashFile(ctx, l.Workspace.Files(), a.Name)
		if err != nil {
			return intoto.Statement{}, err
		}
		m.Artifacts = append(m.Artifacts, manifest.Artifact{Artifact: a, Digests: set})
	}
	return m.SBOMList()
}

// checkSBOMList demands that the list of SBOMs in the workspace, if one is
// planned, is the release identity's and lists the SBOMs of the manifest. An
// SBOM may have changed since the list was signed.
func checkSBOMList(ctx context.Context, req Request, m manifest.Manifest) error {
	if _, planned := req.Plan.Find(sbomlist.Name); !planned {
		return nil
	}
	want, err := m.SBOMList()
	if err != nil {
		return err
	}
	raw, err := readFile(ctx, req, sbomlist.Name)
	if err != nil {
		return err
	}
	return checkStatement(req, sbomlist.Name, want, raw)
}

// checkSignature checks what is in a bundle for a planned signature file.
func checkSignature(req Request, a plan.Artifact, o sign.Order, bundle []byte) error {
	if a.IsSBOMList() {
		return checkStatement(req, a.Name, o.Statement, bundle)
	}
	return checkBlob(req, a.Of, o.Bytes, bundle)
}

// checkStatement demands that the release identity signed exactly this
// statement.
func checkStatement(req Request, name string, want intoto.Statement, bundle []byte) error {
	e, err := req.Verifier.Attestation(bundle)
	if err != nil {
		return err
	}
	if _, err := req.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: want.PredicateType(), Subject: name, Whole: true}); err != nil {
		return err
	}
	if !equalStatements(e.Statement(), want) {
		return verdict.Refuse(verdict.Conflict, name, "the signed statement differs from the files of the release").
			Advise("sign again: waybill sign " + req.Plan.Version.String() + " --confirm")
	}
	return nil
}
