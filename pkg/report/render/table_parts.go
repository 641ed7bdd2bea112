package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/osps"
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

// part is the findings inside one group, for example of one document. The part
// without name has the findings that are in no group.
type part struct {
	name     string
	findings []verdict.Finding
}

// byGroup splits findings by the group that they are inside. Without groups or
// with only one, there is one part.
func byGroup(all []verdict.Finding, groups []verdict.Group) []part {
	parts := []part{{}}
	at := map[string]int{"": 0}
	for _, f := range all {
		name := ""
		for _, g := range groups {
			if strings.HasPrefix(f.Subject, g.Name+"/") && len(g.Name) > len(name) {
				name = g.Name
			}
		}
		i, known := at[name]
		if !known {
			i = len(parts)
			at[name] = i
			parts = append(parts, part{name: name})
		}
		parts[i].findings = append(parts[i].findings, f)
	}
	if len(parts) < 3 {
		return []part{{findings: all}}
	}
	return parts
}

// parts prints findings, each part below its name.
func (p *page) parts(all []verdict.Finding, groups []verdict.Group) {
	for _, part := range byGroup(all, groups) {
		if part.name != "" {
			p.line("  IN %s", p.text(part.name))
			p.line("")
		}
		p.findings(part.findings)
	}
}

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
