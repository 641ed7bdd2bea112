package render

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// part is the findings inside one group, as those of one document; that of no
// name has those that are inside none.
type part struct {
	name     string
	findings []verdict.Finding
}

// byGroup splits findings by the group that they are inside: of several
// documents, each has its own list. Where none or one has any, there is one
// list.
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

// parts prints findings, those inside each group below its name.
func (p *page) parts(all []verdict.Finding, groups []verdict.Group) {
	for _, part := range byGroup(all, groups) {
		if part.name != "" {
			p.line("  IN %s", p.text(part.name))
			p.line("")
		}
		p.findings(part.findings)
	}
}
