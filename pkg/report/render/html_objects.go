package render

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of a page: how many objects it lists, how many classes page.css can filter
// by, and up to how many objects each class is open.
const maxObjects, maxFilters, maxUnfolded = 1000, 16, 12

// ungrouped is the class of objects in a verdict without groups.
const ungrouped = "objects"

// counted are the objects of a verdict. One about single files or images has their
// proofs alone.
func counted(v verdict.Verdict) []verdict.Object {
	all, digests := v.Objects, map[string]digest.Digest{}
	for _, in := range v.Inputs {
		digests[in.Name] = in.Digest
	}
	for _, p := range v.Proofs {
		if o := (verdict.Object{Name: p.Subject, Class: ungrouped, Digest: digests[p.Subject], Verified: v.Outcome() == verdict.Accepted}); len(v.Objects)+len(v.Groups) == 0 && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}

// objects prints each object by class, with its digest and what proves it; those
// that are not verified come first. Radio buttons and the style filter them.
func (h *hyper) objects(v verdict.Verdict, c checks) {
	objects, proofs, groups := counted(v), map[string][]verdict.Proof{}, v.Groups
	if len(objects)+len(groups) == 0 {
		return
	}
	if len(groups) == 0 {
		groups = []verdict.Group{{Name: ungrouped, Verified: v.Counts.Verified, Required: v.Counts.Required}}
	}
	for _, p := range v.Proofs {
		proofs[p.Subject] = append(proofs[p.Subject], p)
	}
	h.put("<section class=\"objects\"><h2>%s</h2>\n", plural.Of(v.Counts.Required, "object"))
	if c.release != nil {
		h.put("<p class=\"quiet\">The commands below need a directory with the files of the release, %s and %s; REPOSITORY is that of an image.", h.mono(rootFile), h.mono(profileFile))
		if v.Outcome() == verdict.Accepted { // no command keeps a refused release
			h.put(" This command downloads the files:</p>")
			h.again("Download the release", c.whole("--download", "DIR"))
		} else {
			h.put("</p>")
		}
	}
	if len(groups) > 1 {
		h.put("<p class=\"filter\">")
		h.filter("all", "all", v.Counts.Required)
		h.filter("bad", "not verified", v.Counts.Required-v.Counts.Verified)
		for i, g := range groups[:min(maxFilters, len(groups))] {
			h.filter(fmt.Sprint(i), groupName(g.Name), g.Required)
		}
		h.put("</p>\n")
	}
	for i, g := range groups {
		var open, cut string
		list := slices.DeleteFunc(slices.Clone(objects), func(o verdict.Object) bool { return o.Class != g.Name || o.Verified })
		list = append(list, slices.DeleteFunc(slices.Clone(objects), func(o verdict.Object) bool { return o.Class != g.Name || !o.Verified })...)
		if g.Verified < g.Required || v.Counts.Required <= maxUnfolded {
			open = " open"
		}
		if limit := max(1, maxObjects/len(groups)); len(list) > limit {
			list, cut = list[:limit], fmt.Sprintf("; %d are shown, the JSON form has all", limit)
		}
		h.put("<details class=\"class g%d\"%s><summary><b><bdi>%s</bdi></b> %d of %d verified%s</summary>\n<ul>\n", i, open, h.text(groupName(g.Name)), g.Verified, g.Required, cut)
		for _, o := range list {
			h.object(o, proofs[o.Name], c)
		}
		h.put("</ul></details>\n")
	}
	h.put("</section>\n")
}

func (h *hyper) filter(id, name string, count int) {
	checked := map[string]string{"all": " checked"}[id]
	h.put("<input type=\"radio\" name=\"filter\" id=\"f-%s\"%s><label for=\"f-%s\"><bdi>%s</bdi> %d</label>", id, checked, id, h.text(name), count)
}

func (h *hyper) object(o verdict.Object, proofs []verdict.Proof, c checks) {
	state, word := "ok", "verified"
	if !o.Verified {
		state, word = "bad", "not verified"
	}
	h.put("<li class=\"%s\">%s <span class=\"state\">%s</span>", state, h.mono(o.Name), word)
	if !o.Digest.IsZero() {
		h.put("<div class=\"quiet\">%s</div>", h.mono(o.Digest.String()))
	}
	for _, p := range proofs {
		when := "at an unverified time"
		if !p.SignedAt.IsZero() {
			when = fmt.Sprintf("%s, log entry %d", moment(p.SignedAt), p.LogIndex)
		}
		h.put("<div class=\"quiet\">%s by %s, %s</div>", h.text(plainStatement(p.Statement)), h.mono(signerOf(p)), when)
	}
	if len(proofs) == 0 && o.Verified && c.listed != nil {
		h.put("<div class=\"quiet\">listed in the signed manifest</div>")
	}
	h.again("Check this again", c.object(o, proofs)...)
	h.put("</li>\n")
}

// plainStatement is what was signed, in words.
func plainStatement(statement string) string {
	return strings.Replace(shortStatement(statement), simpleSigning, "image signature", 1)
}

// signings prints who signed what and when, in the order of time.
func (h *hyper) signings(v verdict.Verdict) {
	if len(v.Proofs) == 0 {
		return
	}
	h.put("<section><h2>Who signed what, and when</h2>\n<ol class=\"timeline\">\n")
	proofs := slices.SortedStableFunc(slices.Values(v.Proofs), func(a, b verdict.Proof) int { return a.SignedAt.Compare(b.SignedAt) })
	for _, s := range sums(proofs) {
		var first, last time.Time
		for _, p := range proofs {
			if p.Role == s.role && signerOf(p) == s.identity && shortStatement(p.Statement) == s.statement {
				if last = p.SignedAt; first.IsZero() {
					first = last
				}
			}
		}
		span := moment(first)
		if last.IsZero() {
			span = "at an unverified time"
		} else if last.After(first) {
			span += " to " + moment(last)
		}
		h.put("<li><time>%s</time><b>%d × %s</b> by %s as %s</li>\n", span, s.count, h.text(plainStatement(s.statement)), h.mono(s.identity), h.text(s.role))
	}
	h.put("<li><time>%s</time><b>judged</b></li>\n</ol></section>\n", moment(v.Time))
}

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
