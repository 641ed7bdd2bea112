package render

import (
	"fmt"
	escape "html"
	"io"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// htmlHead begins the page. It loads nothing, and its Content-Security-Policy
// makes browsers enforce that, should foreign text ever be read as a tag.
const htmlHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; color: #1b1f24; background: #fff; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code, .mono { font: 0.88em/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
.answer { border-left: 0.5rem solid #8a1c1c; background: #fbeeee; padding: 0.75rem 1rem; margin: 1rem 0 }
.accepted { border-color: #1a6b34; background: #edf7f0 }
.unavailable, .undecided { border-color: #8a5a00; background: #fdf6e7 }
.answer strong { font-size: 1.3rem; display: block; overflow-wrap: anywhere }
table { border-collapse: collapse } td, th { text-align: left; padding: 0.15rem 1.5rem 0.15rem 0; vertical-align: top }
td.n, th.n { text-align: right }
section { margin: 1.5rem 0 } h2 { font-size: 1.1rem; margin: 0 0 0.4rem } li { margin: 0.4rem 0 }
.next { background: #f3f4f6; padding: 0.4rem 0.75rem } dl { margin: 0.2rem 0 0.2rem 1rem } dd { margin: 0 } dt { float: left; width: 4rem; color: #57606a }
.state { font-weight: 600; min-width: 5.6rem; overflow-wrap: normal } td.state { padding-right: 0.75rem } .met { color: #1a6b34 } .declared, .not-implementable { color: #8a5a00 } .not-met, .not-shown { color: #8a1c1c }
@media (prefers-color-scheme: dark) { body { color: #e6e8eb; background: #14171a } .answer { background: #341a1a } .accepted { background: #12301c }
 .unavailable, .undecided { background: #362a0e } .next { background: #22262b } dt { color: #9aa4ae }
 .met { color: #6fcf8f } .declared, .not-implementable { color: #e0b050 } .not-met, .not-shown { color: #f09090 } }
</style>
</head>
<body>
`

// html writes one self-contained page. Foreign text is escaped, and isolated so
// that its writing direction does not affect its surroundings.
func (p Printer) html(w io.Writer, v verdict.Verdict) error {
	h := &hyper{w: w}
	word, rest := headline(v)
	answer := v.Outcome().String()
	if v.Unsigned() {
		answer = "UNSIGNED"
	}
	h.put(htmlHead, h.text(answer+": "+v.Question))
	if p.Saved {
		h.put("<p class=\"next\">%s</p>\n", h.text(notice(v)))
	}
	h.put("<h1>%s</h1>\n", h.text(question(v)))
	h.put("<div class=\"answer %s\"><strong>%s</strong><span class=\"mono\">%s</span></div>\n", answer, h.text(word+rest), v.Counts)
	if p.View == "" {
		h.groups(v.Groups)
	}
	h.findings("", v.Findings)
	h.findings("Warning: ", v.Warnings)
	h.waived(v.Waived)
	if p.View == "" {
		h.proofs(v)
		h.levels(v.Levels)
	} else {
		h.view(p.View, v)
	}
	h.facts(v)
	h.put("</body>\n</html>\n")
	return h.err
}

// hyper writes HTML and keeps the first error.
type hyper struct {
	w   io.Writer
	err error
}

// put writes; every text argument must come from [hyper.text].
func (h *hyper) put(format string, args ...any) {
	if h.err == nil {
		_, h.err = fmt.Fprintf(h.w, format, args...)
	}
}

// text makes foreign text harmless in HTML, including attributes.
func (h *hyper) text(s string) string { return escape.EscapeString(printable(s)) }

// mono is foreign text to be copied, such as a digest.
func (h *hyper) mono(s string) string { return "<code><bdi>" + h.text(s) + "</bdi></code>" }

func (h *hyper) groups(all []verdict.Group) {
	if len(all) == 0 {
		return
	}
	h.put("<section><table>\n<tr><th>group</th><th class=\"n\">verified</th><th class=\"n\">required</th></tr>\n")
	for _, g := range all {
		h.put("<tr><td>%s</td><td class=\"n\">%d</td><td class=\"n\">%d</td></tr>\n", h.text(g.Name), g.Verified, g.Required)
	}
	h.put("</table></section>\n")
}

func (h *hyper) findings(prefix string, all []verdict.Finding) {
	for _, g := range byCode(all) {
		h.put("<section><h2>%s%s (%d)</h2>\n<ul>\n", h.text(prefix), h.text(string(g.code)), len(g.findings))
		for i, f := range g.findings {
			h.put("<li>%s<br><bdi>%s</bdi>", h.mono(f.Subject), h.text(f.Message))
			h.differ(f)
			h.put("</li>\n")
			if i+1 == len(g.findings) || g.findings[i+1].Fix != f.Fix {
				h.put("</ul>\n<p class=\"next\">Next: <bdi>%s</bdi></p>\n", h.text(f.Fix))
				if i+1 < len(g.findings) {
					h.put("<ul>\n")
				}
			}
		}
		h.put("</section>\n")
	}
}

func (h *hyper) differ(f verdict.Finding) {
	if f.Want != "" || f.Got != "" {
		h.put("<dl><dt>want</dt><dd>%s</dd><dt>got</dt><dd>%s</dd></dl>", h.mono(f.Want), h.mono(f.Got))
	}
	if f.Known != nil {
		h.put("<br>known as %s: <bdi>%s</bdi> (%s)", h.mono(f.Known.ID), h.text(f.Known.Explanation), h.mono(f.Known.Source))
	}
}

func (h *hyper) waived(all []verdict.Waiver) {
	if len(all) == 0 {
		return
	}
	h.put("<section><h2>Set aside (%d)</h2>\n<ul>\n", len(all))
	for _, w := range all {
		h.put("<li>%s %s<br><bdi>%s</bdi><br>by %s %s of %s until %s: <bdi>%s</bdi>", h.text(string(w.Finding.Code)), h.mono(w.Finding.Subject),
			h.text(w.Finding.Message), h.text(string(w.Kind)), h.mono(w.ID), h.mono(w.By), w.Expires.Format("2006-01-02"), h.text(w.Reason))
		h.differ(w.Finding)
		h.put("</li>\n")
	}
	h.put("</ul></section>\n")
}

func (h *hyper) proofs(v verdict.Verdict) {
	if len(v.Proofs) == 0 {
		return
	}
	h.put("<section><h2>Proven</h2>\n<table>\n<tr><th class=\"n\">how many</th><th>what</th><th>role</th><th>signed by</th></tr>\n")
	for _, s := range sums(v.Proofs) {
		h.put("<tr><td class=\"n\">%d</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", s.count, h.text(s.statement), h.text(s.role), h.mono(s.identity))
	}
	h.put("</table></section>\n")
}

func (h *hyper) levels(all []verdict.Levels) {
	if len(all) == 0 {
		return
	}
	h.put("<section><h2>Levels</h2>\n<ul>\n")
	for _, l := range all {
		h.put("<li>SLSA %s: level %d of %d, %s", h.text(l.Track), l.Level, l.Most, h.mono(l.Subject))
		if len(l.Next) > 0 {
			h.put("; for %d: <bdi>%s</bdi>", l.Level+1, h.text(strings.Join(l.Next, ", ")))
		}
		h.put("</li>\n")
	}
	h.put("</ul></section>\n")
}

func (h *hyper) facts(v verdict.Verdict) {
	h.put("<section><h2>What this rests on</h2>\n<ul>\n<li>judged at %s</li>\n", v.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
	for _, left := range v.Scope.Left {
		h.put("<li>left out: <bdi>%s</bdi></li>\n", h.text(left))
	}
	for _, n := range v.Notes {
		h.put("<li><bdi>%s</bdi></li>\n", h.text(n))
	}
	if !v.TrustRoot.IsZero() {
		h.put("<li>trust root %s</li>\n", h.mono(v.TrustRoot.String()))
	}
	if !v.Policy.IsZero() {
		h.put("<li>policy %s</li>\n", h.mono(v.Policy.String()))
	}
	for _, f := range v.Features {
		h.put("<li>feature <bdi>%s</bdi></li>\n", h.text(f.String()))
	}
	for _, in := range v.Inputs {
		h.put("<li>%s %s", h.mono(in.Name), h.mono(in.Place))
		if !in.Digest.IsZero() {
			h.put(" %s", h.mono(in.Digest.String()))
		}
		h.put("</li>\n")
	}
	h.put("</ul></section>\n")
}
