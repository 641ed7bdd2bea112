package render

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// shown is how many findings of one code a table shows.
const shown = 5

// table prints the answer in words, in one line, then what it is about, and the
// answer again, so that it is on the last screen. In between are only groups,
// what was not checked, and findings; everything else needs Verbose.
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
	t.headline(v)
	t.begun = false
	if isShort(v) && !p.Verbose {
		t.short(v)
		return t.err
	}
	t.sentences(v)
	t.groups(v.Groups, v.Counts)
	if p.Verbose || v.Outcome() == verdict.Accepted {
		t.unchecked(v)
	}
	t.parts(v.Findings, v.Groups)
	t.waived(v.Waived)
	t.warnings(v.Warnings)
	if p.Verbose {
		t.proofs(v.Proofs)
		t.levels(v.Levels)
		t.facts(v)
		t.line("")
		t.line("%s", v.Counts)
	} else {
		t.levelLines(v.Levels)
		if v.IsCheck() {
			t.notes(v.Notes)
		}
		t.features(v.Features)
	}
	if t.begun { // else the answer is still there
		t.line("")
		t.headline(v)
	}
	return t.err
}

// sentences prints the question, if the headline does not, and what every reader
// should see.
func (p *page) sentences(v verdict.Verdict) {
	if v.Subject != "" {
		p.line("  %s", p.text(question(v)))
	}
	p.line("")
	for _, sentence := range v.Sentences {
		p.line("  %s", p.text(sentence))
	}
	p.line("")
}

// isShort reports whether a verdict accepts a single file or image without any
// reservation that needs space: three lines are enough.
func isShort(v verdict.Verdict) bool {
	return v.Outcome() == verdict.Accepted && !v.IsCheck() && !v.Unsigned() && !v.Scope.IsOfCopies() && len(v.Groups)+len(v.Warnings)+len(v.Waived)+len(v.Features)+len(v.VEX) == 0 &&
		!slices.ContainsFunc(v.Levels, func(l verdict.Levels) bool { return l.Artifacts == 0 }) && len(v.Sentences) <= shortSentences
}

// shortSentences is how many sentences a verdict of three lines may have.
const shortSentences = 2

// short prints the second and third line about a single file or image.
func (p *page) short(v verdict.Verdict) {
	var signers, made []string
	var when time.Time
	for _, proof := range v.Proofs {
		who := signerOf(proof)
		i := slices.Index(signers, who)
		if i < 0 {
			i = len(signers)
			signers, made = append(signers, who), append(made, "")
		}
		if what := shortStatement(proof.Statement); !strings.Contains(made[i], what) {
			made[i] += ", " + what
		}
		if when.IsZero() || proof.SignedAt.Before(when) {
			when = proof.SignedAt
		}
	}
	for i := range signers {
		signers[i] += " (" + strings.TrimPrefix(made[i], ", ") + ")"
	}
	text := strings.Join(v.Sentences, " ") + " Signed"
	if len(signers) > 1 { // else the headline says it
		text += " by " + strings.Join(signers, ", ")
	}
	if when.IsZero() {
		text += " at an unverified time"
	} else {
		text += " on " + when.Format(time.DateOnly)
	}
	p.line("  %s.", p.text(strings.TrimSpace(text)))
	if text := strings.Join(leftOut(v), " "); text != "" {
		p.line("  %s", p.text(text))
	}
}

// leftOut says in at most two sentences what the verdict does not cover.
func leftOut(v verdict.Verdict) (sentences []string) {
	not, unasked := unchecked(v.Scope, v.Groups)
	if len(not) > 0 {
		sentences = append(sentences, "Not checked: "+strings.Join(not, ", ")+".")
	}
	if len(unasked) > 0 {
		sentences = append(sentences, "Not required by this policy: "+strings.Join(unasked, ", ")+".")
	}
	return sentences
}

// headline prints the answer; its first word is coloured on a terminal. Only an
// answer begins at the left: a name with blanks could otherwise be folded so that a
// line of a refusal begins with "OK".
func (p *page) headline(v verdict.Verdict) {
	word, rest := headline(v)
	text := Fold(word+printable(rest), p.Width)
	if p.err == nil {
		_, p.err = io.WriteString(p.w, p.paint(word, v.Outcome())+text[len(word):]+"\n")
	}
	p.empty = false
}

// hanging is the space before further lines of an answer.
const hanging = "  "

// paint colours text green for an acceptance, red for a refusal, and yellow where
// nothing was decided.
func (p *page) paint(text string, o verdict.Outcome) string {
	colour := "31"
	switch {
	case !p.Color:
		return text
	case o == verdict.Accepted:
		colour = "32"
	case o != verdict.Refused:
		colour = "33"
	}
	return "\x1b[1;" + colour + "m" + text + "\x1b[0m"
}

// facts prints what the answer is based on.
func (p *page) facts(v verdict.Verdict) {
	p.notes(v.Notes)
	if !v.TrustRoot.IsZero() {
		p.value(2, "trust root", v.TrustRoot.String())
	}
	if !v.Policy.IsZero() {
		p.value(2, "policy    ", v.Policy.String())
	}
	p.features(v.Features)
}

func (p *page) features(all []verdict.Feature) {
	for _, f := range all {
		p.line("  feature    %s", p.text(f.String()))
	}
}

func (p *page) notes(all []string) {
	for _, n := range all {
		p.line("  note       %s", p.text(n))
	}
}

// page writes lines and keeps the first error.
type page struct {
	Printer
	w     io.Writer
	err   error
	empty bool // the last line was empty; do not print a second one
	begun bool // a line that is not empty was printed after the answer
}

func (p *page) line(format string, args ...any) {
	if p.err != nil || p.empty && format == "" {
		return
	}
	_, p.err = io.WriteString(p.w, fold(fmt.Sprintf(format, args...), p.Width)+"\n")
	p.empty = format == ""
	p.begun = p.begun || !p.empty
}

// text makes foreign text harmless, and shortens it unless Verbose.
func (p *page) text(s string) string {
	if p.Verbose {
		return printable(s)
	}
	return Safe(s)
}

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

// Fold breaks a line at spaces to fit the width of a terminal; 0 is no terminal. Further
// lines are indented, so that none looks like the beginning of an answer.
func Fold(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return strings.ReplaceAll(fold(line, max(width-len(hanging), 1)), "\n", "\n"+hanging)
}

// name is the length of a name, such as "trust root", that stays on the line of
// its value: a line of its own would be hard to read.
const name = 10

// labels is the width of the column of codes.
const labels = 22

// groups prints how many artifacts of each class are verified, and how many of
// all.
func (p *page) groups(all []verdict.Group, of verdict.Counts) {
	width, sum := 18, verdict.Group{Name: "total"}
	for _, g := range all {
		width = max(width, utf8.RuneCountInString(p.text(groupName(g.Name))))
		sum.Verified, sum.Required = sum.Verified+g.Verified, sum.Required+g.Required
	}
	if len(all) > 1 && sum.Verified == of.Verified && sum.Required == of.Required {
		all = append(slices.Clip(all), sum)
	}
	rows, number := len(all), len(strconv.Itoa(max(sum.Required, of.Required)))
	if two := 2*width + 4*number + 18; rows > oneColumn && p.Width >= two {
		rows = (rows + 1) / 2
	}
	for i, g := range all[:rows] {
		text := fmt.Sprintf("  %-*s %*d of %*d", width, p.text(groupName(g.Name)), number, g.Verified, number, g.Required)
		if i+rows < len(all) {
			g = all[i+rows]
			text += fmt.Sprintf("     %-*s %*d of %*d", width, p.text(groupName(g.Name)), number, g.Verified, number, g.Required)
		}
		p.line("%s", text)
	}
	p.line("")
}

// oneColumn is how many groups are always printed below each other.
const oneColumn = 4

// groupName is the plain name of a class of artifacts.
func groupName(class string) string {
	for _, row := range [][2]string{
		{"manifest", "release manifest"}, {"", "documents"}, {"binary", "binaries"}, {"archive", "archives"}, {"file", "other files"}, {"image", "images"},
		{"image-child", "images by platform"}, {"sums", "checksum lists"}, {"config", "configuration"}, {"sbom", "SBOMs"}, {"signature", "signatures"},
	} {
		if row[0] == class {
			return row[1]
		}
	}
	return class
}

// unchecked prints what the verdict does not cover.
func (p *page) unchecked(v verdict.Verdict) {
	for _, text := range leftOut(v) {
		p.line("  %s", p.text(text))
	}
	p.line("")
}

// unchecked splits what a verdict does not cover into what the question or the
// world left out and what the policy does not require, in words. About given
// files, only what concerns them is said.
func unchecked(s verdict.Scope, groups []verdict.Group) (not, unasked []string) {
	not = s.Unanswered()
	var checks []string
	of := map[string][]string{}
	for _, left := range s.NotRequired {
		check, class, some := strings.Cut(left, " of ")
		if s.IsOfGivenFiles() && !some {
			continue
		}
		if !slices.Contains(checks, check) {
			checks = append(checks, check)
		}
		if some {
			of[check] = append(of[check], groupName(class))
		}
	}
	for _, check := range checks {
		text := cmp.Or(map[string]string{
			"provenance": "provenance", "signature": "signatures", "sbom": "SBOMs", "plan": "comparison with the build plan",
			"closed files": "search for extra files", "closed images": "search for extra image tags",
		}[check], check)
		if some := of[check]; len(some) > 0 && slices.ContainsFunc(groups, func(g verdict.Group) bool {
			return slices.Contains([]string{"binary", "archive", "file", "image"}, g.Name) && !slices.Contains(some, groupName(g.Name))
		}) {
			text += " of " + strings.Join(some, " and ")
		}
		unasked = append(unasked, text)
	}
	return not, unasked
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
		p.value(21, "want", p.text(f.Want))
		p.value(21, "got ", p.text(f.Got))
	}
	p.known(f.Known)
}

// value prints a labelled value in a column, or further left if only then a digest fits
// into the line; a long label gets a line of its own.
func (p *page) value(column int, label, value string) {
	n := len(label) + 1 + utf8.RuneCountInString(value)
	switch fits := p.Width <= 0 || strings.Contains(value, " "); {
	case fits || column+n <= p.Width:
		p.line("%*s%s %s", column, "", label, value)
	case 2+n <= p.Width:
		p.line("  %s %s", label, value)
	default:
		p.line("  %s", strings.TrimSpace(label))
		p.line("    %s", value)
	}
}

// more prints how many findings are not shown.
func (p *page) more(n int, last bool) {
	if n > 0 && last {
		p.line("  %-18s and %d more; --verbose lists all", "", n)
	}
}

// proofs sums up the proofs by role and statement, and prints them one by one.
func (p *page) proofs(all []verdict.Proof) {
	for _, s := range sums(all) {
		p.line("  %-10s %s: %d × %s", p.text(s.role), p.text(s.identity), s.count, s.statement)
	}
	for _, proof := range all {
		p.proof(proof)
	}
}

// sum counts the statements of one type that one signer made in one role.
type sum struct {
	role, identity, statement string
	count                     int
}

func sums(all []verdict.Proof) (list []sum) {
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
	if p.Width <= 0 {
		p.line("  %-10s %s, bundle %s", "", when, proof.Bundle)
	} else {
		p.line("  %-10s %s", "", when)
		p.value(13, "bundle", proof.Bundle.String())
	}
	if proof.Log != "" {
		p.value(13, "log", p.text(proof.Log))
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
