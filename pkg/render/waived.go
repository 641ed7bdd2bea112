package render

import (
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// waived prints every finding that was set aside, each in full: whoever reads
// the page must not be able to miss one.
func (p *page) waived(all []verdict.Waiver) {
	for _, w := range all {
		p.line("  %-18s %s, SET ASIDE", w.Finding.Code, Safe(w.Finding.Subject))
		p.line("  %-18s %s", "", Safe(w.Finding.Message))
		p.line("  %-18s %s %s", "", w.Kind, Safe(w.ID))
		p.line("  %-18s reason  %s", "", Safe(w.Reason))
		p.line("  %-18s by      %s", "", Safe(w.By))
		p.line("  %-18s expires %s%s", "", w.Expires.Format(time.RFC3339), citingOne(w.Evidence))
		p.known(w.Finding.Known)
		p.line("")
	}
}

// citingOne names evidence by its digest, if there is any.
func citingOne(evidence digest.Digest) string {
	if evidence.IsZero() {
		return ""
	}
	return citing([]digest.Digest{evidence})
}

// warnings prints findings that only warn.
func (p *page) warnings(all []verdict.Finding) {
	if len(all) == 0 {
		return
	}
	p.line("  WARNINGS           the policy asks to be warned of these; they do not refuse")
	p.line("")
	p.findings(all)
}

// known prints what a list of known defects says of a finding.
func (p *page) known(k *verdict.Known) {
	if k == nil {
		return
	}
	p.line("  %-18s known   %s: %s", "", Safe(k.ID), Safe(k.Explanation))
	p.line("  %-18s source  %s", "", Safe(k.Source))
}
