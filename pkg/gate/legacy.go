package gate

import (
	"context"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// withLegacy is the plan as whoever signed carried it out: with signatures in
// the legacy forms for all files that are signed, if there are any. release.yaml
// does not say which; one alone, or one of something else, is as wrong as any
// other difference.
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

// checkLegacy holds each .sig against its .cert and its file. That they are the
// bytes which were sealed is known; that the three belong together is what the
// users of older clients will see, and has gone wrong elsewhere. When they were
// made only a log knows, and is not asked here: the certificate must have been
// issued while the release identity might act.
func checkLegacy(ctx context.Context, g gathered) (f facts) {
	for _, a := range g.release.manifest.Files() {
		of, is := a.SignedBySig()
		if !is || !g.holds(a.Name) || !g.holds(plan.CertName(of)) || !g.holds(of) {
			continue
		}
		f.fail(a.Name, g.pair(ctx, of))
	}
	return f
}

func (g gathered) pair(ctx context.Context, of string) error {
	file, listed := g.release.manifest.Find(of)
	if !listed {
		return verdict.Refuse(verdict.NotBound, plan.SigName(of), "what it is of is not listed")
	}
	signature, err := g.release.listed(ctx, plan.SigName(of))
	if err != nil {
		return err
	}
	certificate, err := g.release.listed(ctx, plan.CertName(of))
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
	return g.release.Policy.ActsBy(m.Certificate(), policy.Release, policy.Question{Stage: g.release.Stage, Class: file.Class, Subject: plan.CertName(of)})
}
