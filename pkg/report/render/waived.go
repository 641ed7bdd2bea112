package render

import (
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// waived prints every finding that was set aside in full, so that no reader can
// miss one.
func (p *page) waived(all []verdict.Waiver) {
	for _, w := range all {
		p.line("  %-18s %s, SET ASIDE", w.Finding.Code, p.text(w.Finding.Subject))
		p.line("  %-18s %s", "", p.text(w.Finding.Message))
		p.line("  %-18s %s %s", "", w.Kind, p.text(w.ID))
		p.line("  %-18s reason  %s", "", p.text(w.Reason))
		p.line("  %-18s by      %s", "", p.text(w.By))
		p.line("  %-18s expires %s%s", "", w.Expires.Format(time.RFC3339), citingOne(w.Evidence))
		p.known(w.Finding.Known)
		p.line("")
	}
}

// citingOne prints the digest of evidence, if there is any.
func citingOne(evidence digest.Digest) string {
	if evidence.IsZero() {
		return ""
	}
	return citing([]digest.Digest{evidence})
}

// warnings prints the findings that only warn.
func (p *page) warnings(all []verdict.Finding) {
	if len(all) == 0 {
		return
	}
	p.line("  WARNINGS           these do not block acceptance")
	if p.Verbose {
		p.line("")
		p.findings(all)
		return
	}
	for _, g := range byCode(all) {
		for _, f := range g.findings[:min(shown, len(g.findings))] {
			p.line("  %-18s %s", g.code, p.text(f.Subject+": "+f.Message))
		}
		p.more(len(g.findings)-shown, true)
	}
	p.line("")
}

// known prints the entry of a list of known defects about a finding.
func (p *page) known(k *verdict.Known) {
	if k == nil {
		return
	}
	p.line("  %-18s known   %s: %s", "", p.text(k.ID), p.text(k.Explanation))
	p.line("  %-18s source  %s", "", p.text(k.Source))
}
