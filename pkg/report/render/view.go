package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/judge/osps"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// View is a way to show the SLSA levels of a verdict, or the controls of the
// OpenSSF Baseline, requirement by requirement. It replaces the groups, the proofs and the levels of a format for
// people. The zero View shows these.
type View string

// The views.
const (
	KEP3027    View = "kep-3027"    // the levels of SLSA v0.1, by which KEP-3027 counts
	SLSABuild  View = "slsa-build"  // the Build track of SLSA v1.2
	SLSASource View = "slsa-source" // the Source track of SLSA v1.2
	OSPS       View = "osps"        // the controls of the OpenSSF Baseline
)

// Views lists every view, for help texts.
func Views() []string {
	return []string{string(KEP3027), string(SLSABuild), string(SLSASource), string(OSPS)}
}

// scale is what a view shows: its name, its track, and what each level is about.
type scale struct {
	name, track string
	about       []string
}

func (w View) scale() scale {
	switch w {
	case KEP3027:
		return scale{"KEP-3027", "v0.1", []string{"the build is documented", "the build service resists tampering", "specific threats are resisted", "the highest confidence"}}
	case SLSABuild:
		return scale{"SLSA Build", "build", []string{"provenance exists", "signed provenance of a hosted platform", "a platform that resists its own users", "a platform that records all that it uses (draft)"}}
	case SLSASource:
		return scale{"SLSA Source", "source", []string{"version controlled", "history is kept", "continuous technical controls", "reviewed by two parties"}}
	case OSPS:
		return scale{"OpenSSF Baseline v2026.02.19", osps.Track, make([]string, osps.Most)}
	}
	return scale{}
}

// Check refuses an unknown view.
func (w View) Check() error {
	if w != "" && w.scale().name == "" {
		return verdict.Refuse(verdict.Usage, "--report", "%q: want one of %s", string(w), strings.Join(Views(), ", "))
	}
	return nil
}

// Of returns the levels that the view shows: the joined answers on its track.
// Without any, it is wrong use to ask a saved verdict for the view.
func (w View) Of(v verdict.Verdict) (on verdict.Levels, err error) {
	switch {
	case w == OSPS && strings.HasPrefix(v.Question, "release "):
		return osps.Of(v), nil
	case w == OSPS:
		return on, verdict.Refuse(verdict.Usage, "--report", "%s: its controls are about releases, and this is about %s", w.scale().name, v.About()).Advise("verify a whole release")
	}
	scale := w.scale()
	for _, l := range v.Levels {
		if l.Track == scale.track {
			on.Join(l)
		}
	}
	if on.Artifacts == 0 {
		return on, verdict.Refuse(verdict.Usage, "--report", "%s: no level was computed, because no accepted provenance was judged", scale.name).
			Advise("verify with the provenance: --depth provenance for a release, --type slsaprovenance1 for a file or an image")
	}
	return on, nil
}

// chapter is one level of a view: its number, what it is about and whether it
// is reached, and its requirements.
type chapter struct {
	number       int
	title        string
	requirements []verdict.Requirement
}

// chapters are none, where no level was computed.
func (w View) chapters(on verdict.Levels) (all []chapter) {
	if on.Artifacts == 0 {
		return nil
	}
	for i, about := range w.scale().about {
		if i >= on.Most {
			break // a draft that no builder is trusted for
		}
		c := chapter{number: i + 1, title: about + ": not reached"}
		if i < on.Level {
			c.title = about + ": reached"
		}
		if w == OSPS {
			c.title = byState(osps.Count(on, c.number))
		}
		for _, r := range on.Requirements {
			if r.Level == c.number {
				c.requirements = append(c.requirements, r)
			}
		}
		all = append(all, c)
	}
	return all
}

// byState says how many controls are in each state that occurs.
func byState(n map[string]int) string {
	var text []string
	for _, state := range []string{osps.Met, osps.NotMet, osps.Declared, osps.NotEvidenced, osps.Outside} {
		if n[state] > 0 {
			text = append(text, fmt.Sprintf("%d %s", n[state], state))
		}
	}
	if n[osps.Outside] > 0 {
		text[len(text)-1] += " any tool's sight"
	}
	return strings.Join(text, ", ")
}

func about(r verdict.Requirement) string {
	if r.Optional {
		return r.Title + " (optional)"
	}
	return r.Title
}

// because says what meets a requirement, who declares it until when, or what is
// missing; where only some artifacts lack it, for how many, and for which first.
func because(r verdict.Requirement, of int) string {
	if of < 2 || r.Met == of || r.Met == 0 {
		return r.Why
	}
	return fmt.Sprintf("%d of %d artifacts, first %s: %s", of-r.Met, of, r.Artifact, r.Why)
}

// short names evidence by the beginning of its first digest; the JSON form has
// all of it.
func short(evidence []digest.Digest) string {
	switch len(evidence) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" [%.12s]", evidence[0].Hex())
	}
	return fmt.Sprintf(" [%.12s…]", evidence[0].Hex())
}

// legend explains what [short] prints.
const legend = "In brackets: the beginning of the digest of the evidence; \"…\": there is more of it. The JSON form has all digests."

// cites reports whether a requirement names its evidence.
func cites(on verdict.Levels) bool {
	return slices.ContainsFunc(on.Requirements, func(r verdict.Requirement) bool { return len(r.Evidence) > 0 })
}

// some is how many requirements the last line names.
const some = 3

// lastLine is the last line of a view: the level that was reached, and what
// limits it.
func (w View) lastLine(v verdict.Verdict) string {
	on, err := w.Of(v)
	if err != nil {
		return w.scale().name + ": no level was computed, because no accepted provenance was judged"
	}
	if w == OSPS {
		n := osps.Count(on, 0)
		return fmt.Sprintf("%s: %d of %d decidable controls met by signed evidence. Of all %d: %s", w.scale().name, n[osps.Met], n[osps.Met]+n[osps.NotMet]+n[osps.NotEvidenced], len(on.Requirements), byState(n))
	}
	text := fmt.Sprintf("%s level %d of %d for %s", w.scale().name, on.Level, on.Most, plural.Of(on.Artifacts, "artifact"))
	switch {
	case on.Level >= on.Most:
		return text + ": every requirement is met or declared"
	case len(on.Next) == 0:
		return text + ", limited by " + on.Subject
	}
	if on.Differs() {
		limit := on.Subject
		for _, r := range on.Requirements {
			if r.ID == on.Next[0] && r.Artifact != "" {
				limit = r.Artifact
			}
		}
		text += ", limited by " + limit
	}
	names := slices.Clone(on.Next[:min(some, len(on.Next))])
	for _, r := range on.Requirements {
		if i := slices.Index(names, r.ID); i >= 0 && r.State == declared {
			names[i] += " (the declaration counts only up to a lower level)"
		}
	}
	lacks := strings.Join(names, ", ")
	if more := len(on.Next) - some; more > 0 {
		lacks += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s; level %d lacks %s", text, on.Level+1, lacks)
}

// viewWidth is the length of lines where the width of the terminal is unknown.
const viewWidth = 80

const (
	met      = "met" // needs no explanation
	declared = "declared"
)

// view prints the answer, what contradicts it, and the levels. Why a requirement
// is met is printed with Verbose.
func (p *page) view(v verdict.Verdict) {
	if p.Width == 0 {
		p.Width = viewWidth
	}
	p.headline(v)
	p.sentences(v)
	p.parts(v.Findings, v.Groups)
	p.waived(v.Waived)
	p.warnings(v.Warnings)
	on, _ := p.View.Of(v)
	width := len("not shown")
	for _, r := range on.Requirements {
		width = max(width, min(len(r.State), labels-5))
	}
	for _, c := range p.View.chapters(on) {
		p.line("LEVEL %d, %s", c.number, c.title)
		for _, r := range c.requirements {
			if r.State == osps.Outside && !p.Verbose {
				continue // counted in the title
			}
			if r.State == met && !p.Verbose {
				p.line("  %-*s  %s: %s%s", width, p.text(r.State), p.text(r.ID), p.text(about(r)), short(r.Evidence))
				continue
			}
			p.line("  %-*s  %s: %s", width, p.text(r.State), p.text(r.ID), p.text(about(r)))
			p.line("  %-*s  %s%s", width, "", p.text(because(r, on.Artifacts)), short(r.Evidence))
		}
		p.line("")
	}
	if cites(on) {
		p.line("%s", legend)
		p.line("")
	}
	if p.Verbose {
		p.facts(v)
	} else {
		p.features(v.Features)
	}
	p.line("")
	p.line("%s", p.text(p.View.lastLine(v)))
}

// mdView prints the levels in markdown.
func (p *page) mdView(v verdict.Verdict) {
	on, _ := p.View.Of(v)
	for _, c := range p.View.chapters(on) {
		p.line("### Level %d, %s", c.number, c.title)
		p.line("")
		for _, r := range c.requirements {
			p.line("- **%s** %s: %s", word(r.State), code(p.text(r.ID)), prose(p.text(about(r))))
			cited := ""
			if list := strings.TrimSpace(short(r.Evidence)); list != "" {
				cited = " " + code(list) // two code spans that touch are none
			}
			p.line("  - %s%s", prose(p.text(because(r, on.Artifacts))), cited)
		}
		p.line("")
	}
	if cites(on) {
		p.line("%s", legend)
		p.line("")
	}
	p.line("**%s**", prose(p.text(p.View.lastLine(v))))
	p.line("")
}

// view writes the levels as sections of a page.
func (h *hyper) view(w View, v verdict.Verdict) {
	on, _ := w.Of(v)
	for _, c := range w.chapters(on) {
		h.put("<section><h2>Level %d, %s</h2>\n<table>\n", c.number, h.text(c.title))
		for _, r := range c.requirements {
			h.put("<tr><td class=\"state %s\">%s</td><td>%s <bdi>%s</bdi><br><small><bdi>%s</bdi><span class=\"mono\">%s</span></small></td></tr>\n", strings.ReplaceAll(word(r.State), " ", "-"), h.text(r.State),
				h.mono(r.ID), h.text(about(r)), h.text(because(r, on.Artifacts)), h.text(short(r.Evidence)))
		}
		h.put("</table></section>\n")
	}
	if cites(on) {
		h.put("<p><small>%s</small></p>\n", h.text(legend))
	}
	h.put("<p class=\"next\"><bdi>%s</bdi></p>\n", h.text(w.lastLine(v)))
}
