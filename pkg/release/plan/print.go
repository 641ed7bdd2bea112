package plan

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Write prints the plan for people: the steps with their inputs, and the
// artifacts.
func (p Plan) Write(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s %s, tag %s of %s\n", p.Name, p.Version, p.Tag, shown(p.Repository))
	fmt.Fprintf(b, "files   %s\n", shown(p.Files))
	if p.Images != "" {
		fmt.Fprintf(b, "images  %s\n", shown(p.Images))
	}
	for _, name := range sortedKeys(p.Parameters) {
		fmt.Fprintf(b, "%s = %s\n", name, shown(p.Parameters[name]))
	}
	for _, name := range sortedKeys(p.Downloads) {
		fmt.Fprintf(b, "fetch   %s %s\n", name, shown(p.Downloads[name]))
	}
	for _, dir := range p.Modules {
		fmt.Fprintf(b, "fetch   modules of %s\n", shown(dir))
	}
	for _, m := range p.Markers {
		fmt.Fprintf(b, "marker  %s\n", m)
	}
	fmt.Fprintf(b, "plan    %s\n\n", p.Digest())
	steps := [][]string{{"STEP", "DOES", "TOOLS", "NETWORK", "OUTPUTS"}}
	for _, s := range p.Steps {
		steps = append(steps, []string{s.Instance, s.does(), orNone(s.Tools), orNone(s.Network), fmt.Sprint(len(s.Outputs))})
	}
	artifacts := [][]string{{"ARTIFACT", "CLASS", "PLATFORM", "STEP", "EVIDENCE"}}
	for _, a := range p.Artifacts {
		artifacts = append(artifacts, []string{a.Name, string(a.Class), a.Platform, a.Step, kindsIn(a.Evidence)})
	}
	for _, rows := range [][][]string{steps, artifacts} {
		t := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
		for _, row := range rows {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "%s, %s: %s\n", plural.Of(len(p.Steps), "step"), plural.Of(len(p.Artifacts), "artifact"), p.tally())
	_, err := io.WriteString(w, b.String())
	return err
}

// does describes a step in a word or its command.
func (s Step) does() string {
	switch {
	case s.Archive != nil && s.Archive.Source:
		return "archive of the source"
	case s.Archive != nil:
		return fmt.Sprintf("archive of %d", len(s.Archive.Take)+len(s.Archive.Add))
	case s.Image != nil && s.Image.Import != "":
		return fmt.Sprintf("image for %s from %s", plural.Of(len(s.Image.Platforms), "platform"), s.Image.Import)
	case s.Image != nil:
		return fmt.Sprintf("image for %s on %s", plural.Of(len(s.Image.Platforms), "platform"), s.Image.Base)
	case s.Checksums != nil:
		return fmt.Sprintf("%s of %d", s.Checksums.Algorithm, len(s.Checksums.Take))
	}
	line := []rune(shown(strings.Join(s.Run, " ")))
	if len(line) > 60 {
		return string(line[:59]) + "…"
	}
	return string(line)
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

func kindsIn(list []Evidence) string {
	return strings.Join(slice.Map(list, func(e Evidence) string { return string(e.Kind) }), " ")
}

// tally counts artifacts by class.
func (p Plan) tally() string {
	n := map[Class]int{}
	for _, a := range p.Artifacts {
		n[a.Class]++
	}
	return strings.Join(slice.Map(sortedKeys(n), func(c Class) string { return fmt.Sprintf("%d %s", n[c], c) }), ", ")
}

// Write prints a difference for people: lost artifacts first, because users
// will miss them.
func (d Diff) Write(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "from %s\nto   %s\n\n", d.From, d.To)
	for _, a := range d.Lost {
		fmt.Fprintf(b, "- %-12s %s\n", a.Class, a.Name)
	}
	for _, a := range d.Added {
		fmt.Fprintf(b, "+ %-12s %s\n", a.Class, a.Name)
	}
	for _, c := range d.Changed {
		fmt.Fprintf(b, "~ %s\n", shown(c.String()))
	}
	if d.IsEmpty() {
		b.WriteString("nothing changes\n")
	} else {
		fmt.Fprintf(b, "\n%d added, %d lost, %d changed\n", len(d.Added), len(d.Lost), len(d.Changed))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shown makes foreign text fit for a terminal: it quotes unprintable characters
// and shortens long text.
func shown(s string) string {
	switch {
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return quote(s)
	case len(s) > 200:
		return strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}
