// Package render prints a verdict: as a page for a terminal, as JSON that is
// the very value the library returned, and in the forms that other programs
// and people read: JUnit, SARIF, markdown and HTML.
//
//	err := render.Write(os.Stdout, render.Table, v)
//
// Foreign text (names, messages) is made harmless in each format: it moves no
// cursor, closes no tag, ends no table cell and mentions no user.
//
// Other projects should not import this package: it changes without notice.
package render

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/tool/redact"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Format is an output format for verdicts.
type Format string

// The formats.
const (
	Table    Format = "table"    // for a terminal
	JSON     Format = "json"     // the complete verdict
	JUnit    Format = "junit"    // test results for CI systems
	SARIF    Format = "sarif"    // for code scanners
	Markdown Format = "markdown" // a comment on a pull request
	HTML     Format = "html"     // a page to show to others
)

// Formats lists every format, for help texts.
func Formats() []string {
	return []string{string(Table), string(JSON), string(JUnit), string(SARIF), string(Markdown), string(HTML)}
}

// Printer prints verdicts. The zero Printer shortens long lists and texts in
// the formats for people, and does not limit the length of lines.
type Printer struct {
	// Verbose prints every finding and proof, and all texts in full.
	Verbose bool
	// View shows the levels in place of groups and proofs, in the formats for people.
	View View
	// Saved says first that the verdict was read from a file.
	Saved bool
	// Program is the name and the version of the program that prints a page.
	Program string
	// Width is how many characters a line of a table may have; 0 means no
	// limit.
	Width int
	// Color colors the words of a table that say good or bad.
	Color bool
	// Quiet prints the headline of a table alone.
	Quiet bool
}

// Write prints v as a zero Printer does.
func Write(w io.Writer, f Format, v verdict.Verdict) error { return Printer{}.Print(w, f, v) }

// Print prints v.
func (p Printer) Print(w io.Writer, f Format, v verdict.Verdict) error {
	if p.Saved && (f == JUnit || f == SARIF) { // the others have a place for it
		v.Sentences = slices.Insert(slices.Clone(v.Sentences), 0, notice(v))
	}
	switch f {
	case Table:
		return p.table(w, v)
	case JSON:
		return encode(w, v)
	case JUnit:
		return junit(w, v)
	case SARIF:
		return sarif(w, v)
	case Markdown:
		return p.markdown(w, v)
	case HTML:
		return p.html(w, v)
	}
	return verdict.Refuse(verdict.Usage, string(f), "unknown output format, want one of %s", strings.Join(Formats(), ", "))
}

// document is the JSON form: the verdict, its answer and its schema.
type document struct {
	Schema   string          `json:"schema"`
	Outcome  verdict.Outcome `json:"outcome"`
	Headline string          `json:"headline"`
	verdict.Verdict
}

func encode(w io.Writer, v verdict.Verdict) error {
	var b bytes.Buffer
	if err := WriteJSON(&b, document{Schema: verdict.Schema, Outcome: v.Outcome(), Headline: v.Headline(), Verdict: v}); err != nil {
		return fmt.Errorf("writing verdict: %w", err)
	}
	if _, err := io.WriteString(w, escaped(b.String())); err != nil {
		return fmt.Errorf("writing verdict: %w", err)
	}
	return nil
}

// escaped replaces unprintable characters of a JSON text by their escapes: the
// text has the same value and no effect on a terminal.
func escaped(text string) string {
	if strings.IndexFunc(text, acts) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case !acts(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

func acts(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// group is the findings of one code, in their order.
type group struct {
	code     verdict.Code
	findings []verdict.Finding
}

// byCode groups findings by code; the codes keep their order.
func byCode(all []verdict.Finding) (groups []group) {
	at := map[verdict.Code]int{}
	for _, f := range all {
		i, known := at[f.Code]
		if !known {
			i = len(groups)
			at[f.Code] = i
			groups = append(groups, group{code: f.Code})
		}
		groups[i].findings = append(groups[i].findings, f)
	}
	return groups
}

// question is the question of the verdict. If the acceptance rests on no
// signature, the text begins with that, in every format.
func question(v verdict.Verdict) string {
	if v.Unsigned() {
		return "UNSIGNED: " + v.Question
	}
	return v.Question
}

// headline splits the answer into its first word and the rest.
func headline(v verdict.Verdict) (word, rest string) {
	line := v.Headline()
	word, _, _ = strings.Cut(line, " ")
	word = strings.TrimSuffix(word, ":")
	return word, line[len(word):]
}

// Limits for foreign text: the longest that is printed in full, and how much of
// the beginning and end is printed of a longer one. The end of an error says
// why.
const (
	longest = 480
	tail    = 240
)

// Safe makes foreign text harmless for a terminal and a log: only printable
// characters, no recognisable secret, and limited length. The beginning and the
// end of a longer text remain.
func Safe(s string) string {
	clean := printable(redact.Secrets(s))
	if len(clean) <= longest {
		return clean
	}
	head, end := clean[:longest-tail], clean[len(clean)-tail:]
	for !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	return strings.ToValidUTF8(head, "") + "…" + end
}

// printable replaces unprintable characters: controls, marks that change the
// writing direction, and bytes that are not text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// oneLine prints the answer alone, in one line of any length. The line of a saved
// verdict says that nothing was verified, that of a lab says so.
func (p Printer) oneLine(w io.Writer, v verdict.Verdict) error {
	word, rest := headline(v)
	if p.Saved {
		word = "SAVED, NOT VERIFIED NOW: " + word
	}
	if v.Lab() != "" {
		rest += " (" + trust.LabMark + ")"
	}
	_, err := fmt.Fprintf(w, "%s%s\n", word, printable(rest))
	return err
}

//go:embed schema/verdict.json
var verdictSchema []byte

// VerdictSchema is the JSON schema of the form [JSON].
func VerdictSchema() []byte { return verdictSchema }
