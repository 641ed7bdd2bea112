package gate

import (
	"context"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
