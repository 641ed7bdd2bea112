package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// levels prints how far each artifact came on each SLSA track. With few
// artifacts it prints every requirement. Joined levels of several are long: a
// note has the result, and --verbose or a view prints the requirements.
func (p *page) levels(all []verdict.Levels) {
	if !p.Verbose {
		all = slices.DeleteFunc(slices.Clone(all), func(l verdict.Levels) bool { return l.Artifacts > 0 })
	}
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
			p.line("    %-3s %-9s  %-28s  %s%s", level, p.text(r.State), p.text(r.ID), p.text(because(r, l.Artifacts)), citing(r.Evidence))
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
