package gate

import (
	"bytes"
	"context"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
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

// withLegacy adds the legacy signatures of all signed files to the plan, if the
// manifest lists any. release.yaml does not plan them: the signer decides. A
// single one, or one of an unsigned file, is a difference like any other.
func (m signedManifest) withLegacy(p plan.Plan) plan.Plan {
	for _, a := range m.Artifacts {
		if !a.IsLegacy() {
			continue
		}
		if with, err := p.WithLegacy(); err == nil {
			return with
		}
		return p
	}
	return p
}

// checkLegacy compares each .sig with its .cert and its file. Their bytes are
// already known to be the sealed ones; that the three belong together is what
// users of older clients verify. Only a log knows when the signature was made,
// and it is not asked here: the certificate must have been issued while the
// release identity was valid.
func checkLegacy(ctx context.Context, g gathered) (f facts) {
	for _, a := range g.release.manifest.Files() {
		of, is := a.SignedBySig()
		if !is || !g.holds(a.Name) || !g.holds(plan.CertName(of)) || !g.holds(of) {
			continue
		}
		f.fail(a.Name, g.checkLegacySignature(ctx, of))
	}
	return f
}

func (g gathered) checkLegacySignature(ctx context.Context, of string) error {
	file, listed := g.release.manifest.Find(of)
	if !listed {
		return verdict.Refuse(verdict.NotBound, plan.SigName(of), "the manifest does not list the file that this signs")
	}
	signature, err := g.release.readListed(ctx, plan.SigName(of))
	if err != nil {
		return err
	}
	certificate, err := g.release.readListed(ctx, plan.CertName(of))
	if err != nil {
		return err
	}
	m, err := legacy.ParseFiles(legacy.Certificate, file.Digests.SHA256, signature, certificate)
	if err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return err
	}
	return g.release.Policy.ActsBy(m.Certificate(), policy.Release, policy.Question{Stage: g.release.Stage, Class: file.Class, Subject: plan.CertName(of), Version: g.release.manifest.Version.String()})
}
