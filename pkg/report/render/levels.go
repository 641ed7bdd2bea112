package render

import (
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// levels prints how far each artifact came on each SLSA track. With few
// artifacts it prints every requirement.
func (p *page) levels(all []verdict.Levels) {
	for _, l := range all {
		next := ""
		if len(l.Next) > 0 {
			next = fmt.Sprintf("; for %d: %s", l.Level+1, p.text(strings.Join(l.Next, ", ")))
		}
		p.line("  %-10s SLSA %s: level %d of %d, %s%s", "level", p.text(l.Track), l.Level, l.Most, p.text(l.Subject), next)
		if !p.few(len(all)) {
			continue
		}
		for _, r := range l.Requirements {
			level := fmt.Sprint(r.Level)
			if r.Optional {
				level = "(" + level + ")"
			}
			p.line("    %-3s %-9s  %-28s  %s%s", level, r.State, p.text(r.ID), p.text(r.Why), citing(r.Evidence))
		}
	}
	if !p.few(len(all)) {
		p.line("  %-10s --verbose answers every requirement", "")
	}
}

// citing prints the digests of evidence.
func citing(evidence []digest.Digest) string {
	var b strings.Builder
	for _, d := range evidence {
		fmt.Fprintf(&b, " [%s]", d)
	}
	return b.String()
}
