package gate

import (
	"context"

	"github.com/waybill-release/waybill/pkg/legacy"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// withLegacy is the plan as whoever signed carried it out: with signatures in
// the legacy forms for all files that are signed, if there are any. release.yaml
// does not say which; one alone, or one of something else, is as wrong as any
// other difference.
func (d *decision) withLegacy(p plan.Plan) plan.Plan {
	for _, a := range d.manifest.Artifacts {
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
func (d *decision) checkLegacy(ctx context.Context) {
	for _, a := range d.manifest.Files() {
		of, is := a.SignedBySig()
		if !is || d.bad[a.Name] || d.bad[plan.CertName(of)] || d.bad[of] {
			continue
		}
		if err := d.pair(ctx, of); err != nil {
			d.fail(a.Name, err)
		}
	}
}

func (d *decision) pair(ctx context.Context, of string) error {
	file, listed := d.manifest.Find(of)
	if !listed {
		return verdict.Refuse(verdict.NotBound, plan.SigName(of), "what it is of is not listed")
	}
	signature, err := d.listed(ctx, plan.SigName(of))
	if err != nil {
		return err
	}
	certificate, err := d.listed(ctx, plan.CertName(of))
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
	return d.Policy.ActsBy(m.Certificate(), policy.Release, policy.Question{Stage: d.Stage, Class: file.Class, Subject: plan.CertName(of)})
}
