// Package render prints a verdict: as a page for a terminal, or as JSON that
// is the very value the library returned.
//
//	err := render.Write(os.Stdout, render.Table, v)
//
// What foreigners wrote (names, messages) is quoted where it could act on a
// terminal.
package render

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// Format is a way to print a verdict.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
)

// Formats lists every format, for help texts.
func Formats() []string { return []string{string(Table), string(JSON)} }

// Write prints v.
func Write(w io.Writer, f Format, v verdict.Verdict) error {
	switch f {
	case Table:
		return table(w, v)
	case JSON:
		return encode(w, v)
	}
	return verdict.Refuse(verdict.Usage, string(f), "unknown output format, want one of %s", strings.Join(Formats(), ", "))
}

// document is the JSON form: the verdict, its answer, and its schema.
type document struct {
	Schema   string          `json:"schema"`
	Outcome  verdict.Outcome `json:"outcome"`
	Headline string          `json:"headline"`
	verdict.Verdict
}

func encode(w io.Writer, v verdict.Verdict) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(document{Schema: verdict.Schema, Outcome: v.Outcome(), Headline: v.Headline(), Verdict: v}); err != nil {
		return fmt.Errorf("writing verdict: %w", err)
	}
	return nil
}

// shown bounds how many findings of one code a table shows.
const shown = 5

func table(w io.Writer, v verdict.Verdict) error {
	p := &page{w: w}
	p.line("%s", Safe(v.Question))
	p.line("")
	p.findings(v.Findings)
	p.waived(v.Waived)
	p.warnings(v.Warnings)
	p.proofs(v.Proofs)
	p.levels(v.Levels)
	for _, n := range v.Notes {
		p.line("  note       %s", Safe(n))
	}
	if !v.TrustRoot.IsZero() {
		p.line("  trust root %s", v.TrustRoot)
	}
	if !v.Policy.IsZero() {
		p.line("  policy     %s", v.Policy)
	}
	p.line("")
	word, rest, reasoned := strings.Cut(v.Headline(), ":")
	if reasoned {
		rest = ":" + rest
	}
	p.line("%s%s", strings.ToUpper(word), rest)
	p.line("%s", v.Counts)
	return p.err
}

// page writes lines and keeps the first error.
type page struct {
	w     io.Writer
	err   error
	empty bool // the last line was empty; a second one says nothing
}

func (p *page) line(format string, args ...any) {
	if p.err != nil || p.empty && format == "" {
		return
	}
	_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	p.empty = format == ""
}

// findings prints them by code, the first few of each in full.
func (p *page) findings(all []verdict.Finding) {
	var codes []verdict.Code
	byCode := map[verdict.Code][]verdict.Finding{}
	for _, f := range all {
		if !slices.Contains(codes, f.Code) {
			codes = append(codes, f.Code)
		}
		byCode[f.Code] = append(byCode[f.Code], f)
	}
	for _, code := range codes {
		list := byCode[code]
		for _, f := range list[:min(shown, len(list))] {
			p.line("  %-18s %s", code, Safe(f.Subject))
			p.line("  %-18s %s", "", Safe(f.Message))
			if f.Want != "" || f.Got != "" {
				p.line("  %-18s want %s", "", Safe(f.Want))
				p.line("  %-18s got  %s", "", Safe(f.Got))
			}
			p.known(f.Known)
		}
		if more := len(list) - shown; more > 0 {
			p.line("  %-18s and %d more; --output json lists all", "", more)
		}
		p.line("  %-18s → %s", "", list[0].Fix)
		p.line("")
	}
}

// detailed is how many proofs are shown one by one; more are summed up.
const detailed = 4

// proofs sums up what was proven, by role and statement; of few proofs it
// says by what.
func (p *page) proofs(all []verdict.Proof) {
	type key struct{ role, identity, statement string }
	var order []key
	counts := map[key]int{}
	for _, proof := range all {
		k := key{proof.Role, signerOf(proof), shortStatement(proof.Statement)}
		if counts[k] == 0 {
			order = append(order, k)
		}
		counts[k]++
	}
	for _, k := range order {
		p.line("  %-10s %s: %d × %s", k.role, Safe(k.identity), counts[k], k.statement)
	}
	if len(all) <= detailed {
		for _, proof := range all {
			p.proof(proof)
		}
	}
}

// proof says what one proof rests on.
func (p *page) proof(proof verdict.Proof) {
	p.line("  proof      %s", Safe(proof.Subject))
	p.line("  %-10s signed %s, log index %d, bundle %s", "", proof.SignedAt.Format(time.RFC3339), proof.LogIndex, proof.Bundle)
	if proof.Log != "" {
		p.line("  %-10s log %s", "", Safe(proof.Log))
	}
	if proof.Issuer != "" {
		p.line("  %-10s issuer %s", "", Safe(proof.Issuer))
	}
	for _, name := range slices.Sorted(maps.Keys(proof.Claims)) {
		p.line("  %-10s %s %s", "", Safe(name), Safe(proof.Claims[name]))
	}
}

// signerOf is the identity that signed, or the key.
func signerOf(proof verdict.Proof) string {
	if !proof.Key.IsZero() {
		return "key " + proof.Key.String()
	}
	return proof.Identity
}

// shortStatement names a predicate type in one word.
func shortStatement(s string) string {
	switch {
	case strings.Contains(s, "slsa.dev/provenance"):
		return "provenance"
	case strings.Contains(s, "release-manifest"):
		return "release manifest"
	case strings.Contains(s, "cosign/sign"):
		return "image signature"
	case s == "blob":
		return "file signature"
	}
	return Safe(s)
}

// Safe makes foreign text harmless for a terminal and a log: printable
// characters only, and not endless.
func Safe(s string) string {
	const limit = 300
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
	if len(clean) > limit {
		return strings.ToValidUTF8(clean[:limit], "") + "…"
	}
	return clean
}
