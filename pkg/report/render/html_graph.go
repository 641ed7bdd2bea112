package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// box is what is known about one step of a release: a title, a second line, and its
// class in page.css.
type box struct{ title, text, state string }

// boxes are what a verdict knows about the source, the build, the artifacts, the
// evidence and the places of a release, grouped by class.
func boxes(v verdict.Verdict) (all [5][]box) {
	if repository, commit, ok := strings.Cut(v.Source, " at commit "); ok {
		all[0] = []box{{strings.TrimPrefix(repository, "git+https://"), "commit " + commit, "ok"}}
	}
	for _, s := range sums(v.Proofs) {
		if s.statement == "provenance" {
			all[1] = append(all[1], box{s.identity, plural.Of(s.count, "artifact"), "ok"})
		}
		all[3] = append(all[3], box{fmt.Sprintf("%d × %s", s.count, plainStatement(s.statement)), s.identity, "ok"})
	}
	for _, g := range v.Groups {
		state := "ok"
		if g.Verified < g.Required {
			state = "bad"
		}
		if evidence := []string{"manifest", "provenance", "signature"}; !slices.Contains(evidence, g.Name) {
			step := 2
			if g.Name == "sbom" {
				step = 3
			}
			all[step] = append(all[step], box{groupName(g.Name), fmt.Sprintf("%d of %d verified", g.Verified, g.Required), state})
		}
	}
	for _, in := range v.Inputs {
		if _, place, _ := strings.Cut(in.Place, "://"); place != "" && (in.Name == "files" || in.Name == "images") {
			all[4] = append(all[4], box{place, in.Name, "ok"})
		}
	}
	for i, list := range all {
		if len(list) == 0 {
			all[i] = []box{{"not proven", "in this verdict", "unknown"}}
		} else if more := len(list) - maxBoxes; more > 0 {
			all[i] = append(list[:maxBoxes:maxBoxes], box{fmt.Sprintf("and %d more", more), "", "unknown"})
		}
	}
	return all
}

// maxBoxes is how many boxes a step has.
const maxBoxes = 8

// The size of a box in pixels, and how many characters fit into it.
const boxWidth, boxHeight, boxGap, boxText = 178, 46, 8, 21

// graph draws the way of the release, one drawing for each step: page.css puts them
// side by side on a wide page, and below each other on a narrow one.
func (h *hyper) graph(v verdict.Verdict) {
	if len(v.Groups) == 0 {
		return
	}
	h.put("<section><h2>From source to places</h2>\n<div class=\"graph\">")
	names := []string{"Source", "Build", "Artifacts", "Evidence", "Places"}
	for i, list := range boxes(v) {
		h.put("<div><h3>%s</h3><svg viewBox=\"0 0 %d %d\">", names[i], boxWidth, len(list)*(boxHeight+boxGap))
		for j, b := range list {
			h.put("<g class=\"%s\" transform=\"translate(1 %d)\"><title>%s</title><rect width=\"%d\" height=\"%d\" rx=\"6\"/><text x=\"11\" y=\"19\">%s</text><text class=\"sub\" x=\"11\" y=\"36\">%s</text></g>",
				b.state, j*(boxHeight+boxGap)+1, h.text(b.title+" "+b.text), boxWidth-2, boxHeight, h.text(fit(b.title)), h.text(fit(b.text)))
		}
		h.put("</svg></div>")
	}
	h.put("</div></section>\n")
}

// fit cuts a text that is wider than a box: of a path it keeps the end. Text in
// wide characters is clipped at the edge of the drawing.
func fit(s string) string {
	runes := []rune(printable(s))
	switch {
	case len(runes) <= boxText:
		return string(runes)
	case strings.Contains(s, "/"):
		return "…" + string(runes[len(runes)-boxText+1:])
	}
	return string(runes[:boxText-1]) + "…"
}
