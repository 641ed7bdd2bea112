package render

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	escape "html"
	"io"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/report/explain"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// pageCSS is the only style of a page; [htmlHead] names its hash.
//
//go:embed page.css
var pageCSS string

// htmlHead begins the page. It loads nothing, and its Content-Security-Policy
// makes browsers enforce that, should foreign text ever be read as a tag.
const htmlHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s</title>
<style>%s</style>
</head>
<body>
`

// html writes one self-contained page. Foreign text is escaped, and isolated so
// that its writing direction does not affect its surroundings.
func (p Printer) html(w io.Writer, v verdict.Verdict) error {
	h := &hyper{w: w}
	word, rest := headline(v)
	hash := sha256.Sum256([]byte(pageCSS))
	h.put(htmlHead, base64.StdEncoding.EncodeToString(hash[:]), h.text(word+": "+v.About()), pageCSS)
	c := p.checks(v)
	h.put("<header class=\"%s\">\n", v.Outcome())
	if p.Saved {
		h.put("<p class=\"next\">%s</p>\n", h.text(notice(v)))
	}
	h.head(v, word, rest)
	h.again("Check all of it again", c.whole())
	h.put("</header>\n")
	h.scope(v)
	h.findings("", v.Findings)
	h.findings("Warning: ", v.Warnings)
	h.waived(v.Waived)
	if p.View == "" {
		h.graph(v)
		h.objects(v, c)
		h.levels(v, c)
		h.signings(v)
	} else {
		h.view(p.View, v)
	}
	h.facts(v, c, p.Program)
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

// moment prints a time in UTC.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// head prints what the verdict is about, its answer and its summary.
func (h *hyper) head(v verdict.Verdict, word, rest string) {
	h.put("<h1><bdi>%s</bdi></h1>\n", h.text(v.About()))
	short, whole := inTenWords(strings.TrimPrefix(rest, " "+v.About()))
	h.put("<p class=\"answer\"><strong>%s</strong> <bdi>%s</bdi></p>\n", h.text(strings.TrimSuffix(word, ":")), h.text(short))
	if !whole {
		h.put("<p class=\"more\"><bdi>%s</bdi></p>", h.text(word+rest))
	}
	if v.Subject != "" {
		h.put("<p class=\"more\"><bdi>%s</bdi></p>\n", h.text(question(v)))
	}
	for _, sentence := range v.Sentences {
		h.put("<p><bdi>%s</bdi></p>\n", h.text(sentence))
	}
}

// maxWords is how many words the answer has behind its first one.
const maxWords = 10

// inTenWords is the headline behind what it is about, cut behind a part of the
// sentence, and whether that is all of it.
func inTenWords(line string) (text string, whole bool) {
	reserved, text, _ := strings.Cut(line, ": ")
	words := strings.Fields(text + reserved)
	if len(words) <= maxWords {
		return text + reserved, true
	}
	text = strings.Join(words[:maxWords], " ")
	if i := strings.LastIndexAny(text, ";,"); i > 0 {
		text = text[:i]
	}
	return text + "…", false
}

// again prints commands that check a claim again.
func (h *hyper) again(label string, commands ...string) {
	if len(commands) == 0 || commands[0] == "" {
		return
	}
	h.put("<details class=\"again\"><summary>%s</summary><pre>", label)
	for _, command := range commands {
		h.put("<code><bdi>%s</bdi></code>", h.text(command))
	}
	h.put("</pre></details>")
}

// scope prints what was not checked, and what the policy does not require.
func (h *hyper) scope(v verdict.Verdict) {
	titles := []string{"<h2>Not checked</h2><p class=\"quiet\">The question left it out, or nothing published allows the check.</p>",
		"<h2>Not required by this policy</h2><p class=\"quiet\">The policy does not ask for it, so it was not checked.</p>"}
	not, unasked := unchecked(v.Scope, v.Groups)
	h.put("<section class=\"scope\">")
	for i, all := range [][]string{not, unasked} {
		if len(all) > 0 {
			h.put("<div>%s<ul>", titles[i])
			for _, text := range all {
				h.put("<li><bdi>%s</bdi></li>", h.text(text))
			}
			h.put("</ul></div>")
		}
	}
	h.put("</section>\n")
}

// maxOfCode is how many findings of one code a page has.
const maxOfCode = 200

func (h *hyper) findings(prefix string, all []verdict.Finding) {
	for _, g := range byCode(all) {
		kind := "fault"
		if prefix != "" {
			kind = "warning"
		}
		h.put("<section class=\"%s\"><h2>%s<a href=\"%s\">%s</a> (%d)</h2>\n<ul>\n", kind, h.text(prefix), h.text(explain.URL(g.code)), h.text(string(g.code)), len(g.findings))
		list := g.findings[:min(maxOfCode, len(g.findings))]
		for i, f := range list {
			h.put("<li>%s<br><bdi>%s</bdi>", h.mono(f.Subject), h.text(f.Message))
			h.differ(f)
			h.put("</li>\n")
			if i+1 == len(list) || list[i+1].Fix != f.Fix {
				h.put("</ul>\n<p class=\"next\"><b>Next</b> <bdi>%s</bdi></p>\n", h.text(f.Fix))
				if i+1 < len(list) {
					h.put("<ul>\n")
				}
			}
		}
		if more := len(g.findings) - len(list); more > 0 {
			h.put("<p class=\"quiet\">and %d more; the JSON form has all</p>\n", more)
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
	h.put("<section class=\"warning\"><h2>Set aside (%d)</h2>\n<ul>\n", len(all))
	for _, w := range all {
		h.put("<li>%s %s<br><bdi>%s</bdi><br>by %s %s of %s until %s: <bdi>%s</bdi>", h.text(string(w.Finding.Code)), h.mono(w.Finding.Subject),
			h.text(w.Finding.Message), h.text(w.Kind), h.mono(w.ID), h.mono(w.By), w.Expires.Format(time.DateOnly), h.text(w.Reason))
		h.differ(w.Finding)
		h.put("</li>\n")
	}
	h.put("</ul></section>\n")
}

// levels prints each requirement of each track below the level that is reached.
func (h *hyper) levels(v verdict.Verdict, c checks) {
	if len(v.Levels) == 0 {
		return
	}
	h.put("<section><h2>SLSA levels</h2>\n")
	for _, name := range Views() {
		if _, err := View(name).Of(v); err == nil {
			h.put("<details class=\"level\"><summary><bdi>%s</bdi></summary>\n", h.text(View(name).lastLine(v)))
			h.view(View(name), v)
			h.again("Check this again", c.whole("--report", name))
			h.put("</details>\n")
		}
	}
	h.put("</section>\n")
}

// facts prints what else the answer is based on, and which program printed it.
func (h *hyper) facts(v verdict.Verdict, c checks, program string) {
	h.put("<footer><h2>What this rests on</h2>\n<dl>\n<dt>judged</dt><dd>%s</dd>\n<dt>printed by</dt><dd><bdi>%s</bdi></dd>\n<dt>counts</dt><dd>%s</dd>\n", moment(v.Time), h.text(cmp.Or(program, "waybill")), v.Counts)
	for i, d := range []digest.Digest{v.Policy, v.TrustRoot} {
		if !d.IsZero() {
			h.put("<dt>%s</dt><dd>%s", []string{"policy", "trust root"}[i], h.mono(d.String()))
			if c.root != nil {
				h.again("Check this again", sumOf(d, []string{"policy.yaml", rootFile}[i]))
			}
			h.put("</dd>\n")
		}
	}
	for _, f := range v.Features {
		h.put("<dt>feature</dt><dd><bdi>%s</bdi></dd>\n", h.text(f.String()))
	}
	for _, in := range v.Inputs {
		h.put("<dt>input</dt><dd>%s %s", h.mono(in.Name), h.mono(in.Place))
		if !in.Digest.IsZero() {
			h.put("<br>%s", h.mono(in.Digest.String()))
		}
		h.put("</dd>\n")
	}
	for _, n := range v.Notes {
		h.put("<dt>note</dt><dd><bdi>%s</bdi></dd>\n", h.text(n))
	}
	h.put("</dl>\n<p><a href=\"%s\">What these words mean</a></p></footer>\n", explain.Concepts)
}
