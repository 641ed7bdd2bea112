package render

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/report/explain"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// markdown writes a comment for a pull request or the summary of a step: the answer, the findings by
// code with their next acts, then what the answer rests on. Foreign text is
// never in a table, where it could break a cell.
func (p Printer) markdown(w io.Writer, v verdict.Verdict) error {
	t := &page{Printer: Printer{Verbose: p.Verbose, View: p.View, Saved: p.Saved}, w: w}
	if t.saved(v); p.Saved {
		t.line("")
	}
	word, rest := headline(v)
	title, whole := cut(t.text(rest), maxHeading-len(word))
	t.line("## %s%s", word, prose(title))
	t.line("")
	if !whole {
		t.line("%s%s", word, prose(t.text(rest)))
		t.line("")
	}
	t.line("%s", code(t.text(question(v))))
	t.line("")
	t.line("%s", code(v.Counts.String()))
	t.line("")
	for _, sentence := range v.Sentences {
		t.line("- %s", prose(t.text(sentence)))
	}
	t.line("")
	for _, text := range leftOut(v) {
		t.line("- %s", prose(t.text(text)))
	}
	t.line("")
	if p.View == "" {
		t.mdGroups(v.Groups)
	}
	many := len(v.Findings) > maxOpen
	if many {
		for _, g := range byCode(v.Findings) {
			t.line("- %s: %d", code(printable(string(g.code))), len(g.findings))
		}
		t.line("")
		t.line("<details><summary>All findings</summary>")
		t.line("")
	}
	t.mdFindings(v.Findings, "###")
	if many {
		t.line("</details>")
		t.line("")
	}
	if len(v.Warnings) > 0 {
		t.line("### Warnings")
		t.line("")
		t.mdFindings(v.Warnings, "####")
	}
	t.mdWaived(v.Waived)
	if p.View != "" {
		t.mdView(v)
	}
	t.mdFacts(v)
	return t.err
}

// Limits of the page, which GitHub also shows as the summary of a step: how many
// characters a heading has, and how many findings are shown without unfolding.
const (
	maxHeading = 100
	maxOpen    = 20
)

// cut shortens a text at a space, and reports whether all of it is left.
func cut(text string, most int) (short string, whole bool) {
	if utf8.RuneCountInString(text) <= most {
		return text, true
	}
	short = string([]rune(text)[:most-1])
	if i := strings.LastIndex(short, " "); i > most/2 {
		short = short[:i]
	}
	return strings.TrimRight(short, " ,;:") + "…", false
}

func (p *page) mdGroups(all []verdict.Group) {
	for i, g := range all {
		if i == 0 {
			p.line("| group | verified | required |")
			p.line("|---|--:|--:|")
		}
		p.line("| %s | %d | %d |", word(groupName(g.Name)), g.Verified, g.Required)
	}
	p.line("")
}

// word matches one of our own names: letters, digits, spaces and hyphens.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == ' ' || r == '-' {
			return r
		}
		return '_'
	}, s)
}

func (p *page) mdFindings(all []verdict.Finding, level string) {
	for _, g := range byCode(all) {
		p.line("%s %s (%d)", level, code(printable(string(g.code))), len(g.findings))
		p.line("")
		if e, known := explain.Of(string(g.code)); known {
			p.line("%s: [what it means](%s)", e.Title, e.Page)
			p.line("")
		}
		list := g.findings
		if !p.Verbose {
			list = list[:min(shown, len(list))]
		}
		for _, f := range list {
			p.mdFinding(f)
		}
		if more := len(g.findings) - len(list); more > 0 {
			p.line("- and %d more", more)
		}
		p.line("")
		for i, f := range list {
			if i == 0 || f.Fix != list[i-1].Fix {
				p.line("**Next:** %s", prose(p.text(f.Fix)))
				p.line("")
			}
		}
	}
}

func (p *page) mdFinding(f verdict.Finding) {
	p.line("- %s: %s", code(p.text(f.Subject)), prose(p.text(f.Message)))
	if f.Want != "" || f.Got != "" {
		p.line("  - want %s", code(p.text(f.Want)))
		p.line("  - got %s", code(p.text(f.Got)))
	}
	if f.Known != nil {
		p.line("  - known as %s: %s", code(p.text(f.Known.ID)), prose(p.text(f.Known.Explanation)))
	}
}

// mdWaived prints every finding that was set aside.
func (p *page) mdWaived(all []verdict.Waiver) {
	if len(all) == 0 {
		return
	}
	p.line("### Set aside")
	p.line("")
	for _, w := range all {
		p.line("- %s %s: %s", code(string(w.Finding.Code)), code(p.text(w.Finding.Subject)), prose(p.text(w.Finding.Message)))
		p.line("  - by %s %s of %s: %s", word(w.Kind), code(p.text(w.ID)), code(p.text(w.By)), prose(p.text(w.Reason)))
	}
	p.line("")
}

// mdFacts prints what the answer rests on in a collapsed section.
func (p *page) mdFacts(v verdict.Verdict) {
	p.line("<details><summary>What this rests on</summary>")
	p.line("")
	p.line("- judged at %s", code(v.Time.UTC().Format("2006-01-02T15:04:05Z")))
	for _, s := range sums(v.Proofs) {
		p.line("- %s %s: %d × %s", word(s.role), code(p.text(s.identity)), s.count, prose(s.statement))
	}
	for _, n := range v.Notes {
		p.line("- %s", prose(p.text(n)))
	}
	if !v.TrustRoot.IsZero() {
		p.line("- trust root %s", code(v.TrustRoot.String()))
	}
	if !v.Policy.IsZero() {
		p.line("- policy %s", code(v.Policy.String()))
	}
	for _, f := range v.Features {
		p.line("- feature %s", prose(p.text(f.String())))
	}
	p.line("")
	p.line("- [what these words mean](%s)", explain.Concepts)
	p.line("")
	p.line("</details>")
}

// emphasis is an underscore that is not inside a word.
var emphasis = pattern.Lazy(`(?:\A|\W)_|_(?:\W|\z)|__`)

// prose writes text as it is, if it has no markdown characters, and as code
// otherwise. In code, mentions, links and tags have no effect.
func prose(s string) string {
	plain := strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" ,.;:()'/%-+×→…\"=_", r)
	}) < 0
	if plain && !emphasis().MatchString(s) && !strings.Contains(s, "://") && !strings.Contains(strings.ToLower(s), "www.") {
		return s
	}
	return code(s)
}

// code is a code span. Its fence is longer than any inside.
func code(s string) string {
	run, longest := 0, 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	if s == "" {
		return ""
	}
	fence, pad := strings.Repeat("`", longest+1), ""
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || strings.HasPrefix(s, " ") && strings.HasSuffix(s, " ") {
		pad = " "
	}
	return fence + pad + s + pad + fence
}
