// Package explain says what a reason code means: what happened, who can repair
// it, the attack that it may be, and what to do.
//
//	e, known := explain.Of("TAMPERED")
//	explain.Text(os.Stdout, e)
//
// The texts are in codes.txt, one entry for each code of package verdict; what
// to do is the code table's own. The page docs/codes.md is made of both.
//
// Other projects should not import this package: it changes without notice.
package explain

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

//go:embed codes.txt
var texts string

// home is where the pages of the project are.
const home = "https://github.com/waybill-release/waybill/blob/main/"

// Entry is the explanation of one code.
type Entry struct {
	Code    verdict.Code `json:"code"`
	Outcome string       `json:"outcome"`
	Exit    int          `json:"exitStatus"`
	Title   string       `json:"title"`
	What    string       `json:"whatHappened"`
	Who     string       `json:"whoCanRepair"`
	Attack  string       `json:"attack"` // empty if it is no sign of one
	// Consumer and Producer are what those do who check and who make a release.
	Consumer string `json:"consumer"`
	Producer string `json:"producer"`
	Try      string `json:"try,omitempty"` // a command that provokes it
	Group    string `json:"group"`
	Read     string `json:"read"` // the address of a page about the subject
	Page     string `json:"page"` // the address of this entry
}

// Concepts is the address of the page that explains the words of a verdict.
const Concepts = home + "docs/concepts.md"

// URL is the address of a code's entry on the page of all codes.
func URL(c verdict.Code) string { return home + "docs/codes.md#" + strings.ToLower(string(c)) }

// Of returns the explanation of a code, in any case.
func Of(code string) (found Entry, known bool) {
	for _, e := range All() {
		if strings.EqualFold(string(e.Code), code) {
			return e, true
		}
	}
	return Entry{}, false
}

// All returns every explanation, in the order of the page.
func All() []Entry {
	all, err := parse(texts)
	if err != nil {
		panic("explain: " + err.Error()) // a test parses the same text
	}
	return all
}

// parse reads entries: a group begins with "== TITLE" and "read: PAGE", an entry
// with "CODE TITLE" and lines "KEY: TEXT" until an empty line.
func parse(text string) (all []Entry, err error) {
	group, read := "", ""
	for n, block := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		first, rest, _ := strings.Cut(block, "\n")
		if title, begins := strings.CutPrefix(first, "== "); begins {
			group, read = title, strings.TrimPrefix(rest, "read: ")
			continue
		}
		code, title, _ := strings.Cut(first, " ")
		e := Entry{Code: verdict.Code(code), Title: title, Group: group, Read: home + read, Page: URL(verdict.Code(code))}
		if err := e.fill(rest); err != nil {
			return nil, fmt.Errorf("block %d, %s: %w", n+1, code, err)
		}
		e.Outcome, e.Exit = e.Code.Outcome().String(), verdict.ExitCode(e.Code.Outcome())
		e.Consumer, e.Producer = e.Code.NextAct(verdict.Consumer), e.Code.NextAct(verdict.Producer)
		all = append(all, e)
	}
	return all, nil
}

// fill sets the fields of an entry's lines, each once, in a fixed order.
func (e *Entry) fill(lines string) error {
	fields := []struct {
		key string
		to  *string
	}{{"what", &e.What}, {"who", &e.Who}, {"attack", &e.Attack}, {"try", &e.Try}}
	for i, line := range strings.Split(lines, "\n") {
		if i == len(fields) {
			return fmt.Errorf("%q is one line too many", line)
		}
		value, ours := strings.CutPrefix(line, fields[i].key+": ")
		if !ours || value == "" {
			return fmt.Errorf("line %q: want %s: TEXT", line, fields[i].key)
		}
		*fields[i].to = value
	}
	if e.Attack == "none" {
		e.Attack = ""
	}
	if e.Title == "" || e.What == "" || e.Who == "" {
		return fmt.Errorf("title, what and who are required")
	}
	return nil
}

// Text prints an explanation for a terminal.
func Text(w io.Writer, e Entry) error {
	text := fmt.Sprintf("%s: %s\n", e.Code, e.Title)
	e.each(func(label, paragraph string) { text += fmt.Sprintf("\n%s\n%s\n", label, fold(paragraph)) })
	_, err := fmt.Fprintf(w, "%s\nRead on\n  %s\n  %s\n", text, e.Page, e.Read)
	return err
}

// each calls f for every paragraph of an explanation.
func (e Entry) each(f func(label, text string)) {
	attack := e.Attack
	if attack == "" {
		attack = "It is no sign of an attack."
	}
	f("What happened", fmt.Sprintf("%s The outcome is %s, exit status %d.", e.What, e.Outcome, e.Exit))
	f("Who can repair it", sentence(e.Who))
	f("The attack that it may be", sentence(attack))
	if e.Consumer == e.Producer {
		f("What to do", sentence(e.Consumer))
	} else {
		f("What to do if you check a release", sentence(e.Consumer))
		f("What to do if you make the release", sentence(e.Producer))
	}
}

// sentence begins a text with a capital and ends it with a stop.
func sentence(s string) string { return strings.TrimSuffix(strings.ToUpper(s[:1])+s[1:], ".") + "." }

// fold breaks a text into indented lines of about 78 characters.
func fold(text string) string {
	lines := []string{" "}
	for _, word := range strings.Fields(text) {
		if len(lines[len(lines)-1])+len(word) > 78 {
			lines = append(lines, " ")
		}
		lines[len(lines)-1] += " " + word
	}
	return strings.Join(lines, "\n")
}

// List prints every code with its title, by group.
func List(w io.Writer) error {
	var b strings.Builder
	group := ""
	for _, e := range All() {
		if e.Group != group {
			group = e.Group
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		fmt.Fprintf(&b, "  %-21s  %s\n", e.Code, e.Title)
	}
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}
