package render

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
