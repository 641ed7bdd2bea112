package render

import (
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/judge/osps"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// levelLines prints how far each single artifact came on each SLSA track. The
// levels of a release are part of the details, and of views.
func (p *page) levelLines(all []verdict.Levels) {
	for _, l := range all {
		if l.Artifacts == 0 {
			p.levelLine(l)
		}
	}
}

func (p *page) levelLine(l verdict.Levels) {
	if l.Track == osps.Track {
		p.line("  %-10s OpenSSF Baseline: %s", "controls", byState(osps.Count(l, 0)))
		return
	}
	next := ""
	if len(l.Next) > 0 {
		next = fmt.Sprintf("; for %d: %s", l.Level+1, p.text(strings.Join(l.Next, ", ")))
	}
	p.line("  %-10s SLSA %s: level %d of %d, %s%s", "level", p.text(l.Track), l.Level, l.Most, p.text(l.Subject), next)
}

// levels prints each level with the answer to every requirement.
func (p *page) levels(all []verdict.Levels) {
	for _, l := range all {
		p.levelLine(l)
		for _, r := range l.Requirements {
			level := fmt.Sprint(r.Level)
			if r.Optional {
				level = "(" + level + ")"
			}
			p.line("    %-3s %-9s  %-28s  %s%s", level, p.text(r.State), p.text(r.ID), p.text(because(r, l.Artifacts)), citing(r.Evidence))
		}
	}
}

func citing(evidence []digest.Digest) string {
	var b strings.Builder
	for _, d := range evidence {
		fmt.Fprintf(&b, " [%s]", d)
	}
	return b.String()
}
