package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// shown is how many findings of one code a table shows.
const shown = 5

func (p Printer) table(w io.Writer, v verdict.Verdict) error {
	if p.Quiet {
		return p.oneLine(w, v)
	}
	t := &page{Printer: p, w: w}
	t.saved(v)
	if p.View != "" {
		t.view(v)
		return t.err
	}
	t.line("%s", t.text(question(v)))
	t.line("")
	t.groups(v.Groups)
	t.parts(v.Findings, v.Groups)
	t.waived(v.Waived)
	t.warnings(v.Warnings)
	t.proofs(v.Proofs)
	t.levels(v.Levels)
	t.facts(v)
	t.line("")
	t.headline(v)
	t.line("%s", v.Counts)
	return t.err
}

func (p *page) headline(v verdict.Verdict) {
	word, rest := headline(v)
	p.line("%s%s", word, printable(rest))
}

// facts prints what the answer is based on.
func (p *page) facts(v verdict.Verdict) {
	if left := leftOut(v); left != "" {
		p.line("  left out   %s", p.text(left))
	}
	for _, n := range v.Notes {
		p.line("  note       %s", p.text(n))
	}
	if !v.TrustRoot.IsZero() {
		p.line("  trust root %s", v.TrustRoot)
	}
	if !v.Policy.IsZero() {
		p.line("  policy     %s", v.Policy)
	}
	for _, f := range v.Features {
		p.line("  feature    %s", p.text(f.String()))
	}
}

// leftOut prints what was left out, if the headline does not.
func leftOut(v verdict.Verdict) string {
	if v.Outcome() == verdict.Accepted {
		return ""
	}
	return strings.Join(v.Scope.Left, ", ")
}

// page writes lines and keeps the first error.
type page struct {
	Printer
	w     io.Writer
	err   error
	empty bool // the last line was empty; do not print a second one
}

func (p *page) line(format string, args ...any) {
	if p.err != nil || p.empty && format == "" {
		return
	}
	_, p.err = io.WriteString(p.w, fold(fmt.Sprintf(format, args...), p.Width)+"\n")
	p.empty = format == ""
}

// text makes foreign text harmless, and shortens it unless Verbose.
func (p *page) text(s string) string {
	if p.Verbose {
		return printable(s)
	}
	return Safe(s)
}

// few reports whether n things are printed one by one.
func (p *page) few(n int) bool { return p.Verbose || n <= detailed }

// fold breaks a line at spaces to fit the width, and aligns the continuation
// with the column in which the text began. A longer word, such as a digest, is
// not broken, so that it can be copied.
func fold(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if i := strings.LastIndex(line[:min(labels, len(line))], "  "); i > indent {
		indent = i + 2 // after a label
	}
	indent = min(indent, width/2)
	out, at := line[:indent], indent
	for i, word := range strings.Split(line[indent:], " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width && at-indent > name:
			out = strings.TrimRight(out, " ") + "\n" + strings.Repeat(" ", indent)
			at = indent
		default:
			out += " "
			at++
		}
		out += word
		at += n
	}
	return out
}

// name is the length of a name, such as "trust root", that stays on the line of
// its value: a line of its own would be hard to read.
const name = 10

// labels is the width of the column of codes.
const labels = 22

// groups prints how many artifacts of each class are required and verified.
func (p *page) groups(all []verdict.Group) {
	width := 18
	for _, g := range all {
		width = max(width, utf8.RuneCountInString(p.text(g.Name)))
	}
	for i, g := range all {
		if i == 0 {
			p.line("  %-*s %8s  %8s", width, "GROUP", "VERIFIED", "REQUIRED")
		}
		p.line("  %-*s %8d  %8d", width, p.text(g.Name), g.Verified, g.Required)
	}
	p.line("")
}

// findings prints findings by code, the first few of each in full.
func (p *page) findings(all []verdict.Finding) {
	for _, g := range byCode(all) {
		list := g.findings
		if !p.Verbose {
			list = list[:min(shown, len(list))]
		}
		for i, f := range list {
			p.finding(f)
			if i+1 == len(list) || list[i+1].Fix != f.Fix {
				p.more(len(g.findings)-len(list), i+1 == len(list))
				p.line("  %-18s → %s", "", p.text(f.Fix))
			}
		}
		p.line("")
	}
}

func (p *page) finding(f verdict.Finding) {
	p.line("  %-18s %s", f.Code, p.text(f.Subject))
	p.line("  %-18s %s", "", p.text(f.Message))
	if f.Want != "" || f.Got != "" {
		p.line("  %-18s want %s", "", p.text(f.Want))
		p.line("  %-18s got  %s", "", p.text(f.Got))
	}
	p.known(f.Known)
}

// more prints how many findings are not shown.
func (p *page) more(n int, last bool) {
	if n > 0 && last {
		p.line("  %-18s and %d more; --verbose lists all", "", n)
	}
}

// detailed is how many proofs are printed one by one; more are summed up.
const detailed = 4

// proofs sums up the proofs by role and statement; few proofs are printed one
// by one.
func (p *page) proofs(all []verdict.Proof) {
	for _, s := range sums(all) {
		p.line("  %-10s %s: %d × %s", p.text(s.role), p.text(s.identity), s.count, s.statement)
	}
	if p.few(len(all)) {
		for _, proof := range all {
			p.proof(proof)
		}
	}
}

// sum counts the statements of one type that one signer made in one role.
type sum struct {
	role, identity, statement string
	count                     int
}

func sums(all []verdict.Proof) []sum {
	var list []sum
	for _, proof := range all {
		s := sum{role: proof.Role, identity: signerOf(proof), statement: shortStatement(proof.Statement)}
		i := slices.IndexFunc(list, func(o sum) bool { o.count = 0; return o == s })
		if i < 0 {
			i = len(list)
			list = append(list, s)
		}
		list[i].count++
	}
	return list
}

// proof prints what one proof rests on.
func (p *page) proof(proof verdict.Proof) {
	p.line("  proof      %s", p.text(proof.Subject))
	when := fmt.Sprintf("signed %s, log index %d", proof.SignedAt.Format(time.RFC3339), proof.LogIndex)
	if proof.SignedAt.IsZero() {
		when = "signed at an unverified time"
	}
	p.line("  %-10s %s, bundle %s", "", when, proof.Bundle)
	if proof.Log != "" {
		p.line("  %-10s log %s", "", p.text(proof.Log))
	}
	if proof.Issuer != "" {
		p.line("  %-10s issuer %s", "", p.text(proof.Issuer))
	}
	for _, name := range slices.Sorted(maps.Keys(proof.Claims)) {
		p.line("  %-10s %s %s", "", p.text(name), p.text(proof.Claims[name]))
	}
}

// signerOf is the identity or key that signed.
func signerOf(proof verdict.Proof) string {
	if !proof.Key.IsZero() {
		return "key " + proof.Key.String()
	}
	return proof.Identity
}

// shortStatement is a short name of a predicate type.
func shortStatement(s string) string {
	switch {
	case strings.Contains(s, "slsa.dev/provenance"):
		return "provenance"
	case strings.Contains(s, "release-manifest"):
		return "release manifest"
	case strings.Contains(s, "sbom-list"):
		return "list of SBOMs"
	case strings.Contains(s, "cosign/sign"):
		return "image signature"
	case s == "blob":
		return "file signature"
	}
	return Safe(s)
}
