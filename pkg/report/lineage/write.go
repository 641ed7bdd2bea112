package lineage

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Format is the format of a printed lineage.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
)

// few is how many of a kind are shown without Verbose.
const few = 4

// Writer prints a lineage.
type Writer struct {
	Format Format
	// Verbose prints every artifact, and digests in full.
	Verbose bool
}

// Write prints a lineage. Foreign text is made harmless for a terminal; JSON
// has it unchanged.
func (w Writer) Write(to io.Writer, l Lineage) error {
	if w.Format == JSON {
		e := json.NewEncoder(to)
		e.SetIndent("", "  ")
		return e.Encode(l)
	}
	_, err := io.WriteString(to, w.text(l))
	return err
}

// text prints the lineage as a tree ordered by time.
func (w Writer) text(l Lineage) string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("%s", render.Safe(l.Target.title()))
	for _, at := range l.Target.Lines {
		line("  %s", at.said())
	}
	for _, r := range l.Releases {
		line("")
		line("%s %s, revision %d, commit %.12s  %s", render.Safe(r.Name), r.Version, r.Revision, render.Safe(r.Commit), r.Mark)
		if r.Initial.IsZero() {
			line("  origin unknown: the manifest names no initial trace")
		} else {
			line("  initial trace %s", r.Initial)
		}
		line("  found at %s", render.Safe(strings.Join(r.Found, ", ")))
	}
	if len(l.Runs) > 0 {
		line("")
	}
	for i, r := range l.Runs {
		w.run(r, l, i == len(l.Runs)-1).draw(&out, "")
	}
	if made := w.artifacts(l.Artifacts); l.Target.Kind != OfArtifact && len(made) > 0 {
		line("\nartifacts  %d", len(l.Artifacts))
		for _, a := range made {
			line("  %s", a)
		}
	}
	w.findings(line, l)
	return out.String()
}

// findings prints contradictions, invalid evidence and unreachable places.
func (w Writer) findings(line func(string, ...any), l Lineage) {
	for _, f := range l.Findings {
		line("\n%s  %s", f.Code, render.Safe(f.Subject))
		line("  %s", render.Safe(f.Message))
		if f.Want != "" || f.Got != "" {
			want, got := "want", "got "
			if f.Code == verdict.TraceConflict {
				want, got = "kept", "not "
			}
			line("  %s  %s", want, render.Safe(f.Want))
			line("  %s  %s", got, render.Safe(f.Got))
		}
		line("  → %s", render.Safe(f.Fix))
	}
	for _, f := range l.Unasked {
		line("\n%s  %s", f.Code, render.Safe(f.Subject))
		line("  %s", render.Safe(f.Message))
	}
	if len(l.Notes) > 0 {
		line("")
	}
	for _, n := range l.Notes {
		line("note  %s", render.Safe(n))
	}
}

// run prints the tree of one run.
func (w Writer) run(r Run, l Lineage, last bool) branch {
	b := branch{last: last, head: moment(r.Began, "2006-01-02 15:04:05Z") + "  " + w.titleOf(r)}
	if len(r.Acts) > 0 && r.span() > 0 {
		b.head += "  " + brief(r.span())
	}
	if since := l.since(r); since != "" {
		b.head += "  " + since
	}
	if r.IDs.Trace.IsZero() {
		b.lines = append(b.lines, "origin unknown: no evidence here names a trace")
	} else {
		b.lines = append(b.lines, fmt.Sprintf("trace %s  %s", r.IDs.Trace, r.Mark))
	}
	if own := r.IDs.Initial; !own.IsZero() && !slices.ContainsFunc(l.Releases, func(rel Release) bool { return rel.Initial == own }) {
		b.lines = append(b.lines, "initial trace "+own.String())
	}
	for _, id := range r.Invocations {
		b.lines = append(b.lines, "invocation "+render.Safe(id))
	}
	if len(r.By) > 0 {
		b.lines = append(b.lines, "signed by "+render.Safe(strings.Join(r.By, ", ")))
	}
	acts := joined(r.Acts)
	for i, j := range acts {
		b.kids = append(b.kids, w.act(j, r, l.Target, i == len(acts)-1 && r.Others == 0))
	}
	if r.Others > 0 {
		b.kids = append(b.kids, branch{last: true, head: fmt.Sprintf("and %d more, about other artifacts", r.Others)})
	}
	return b
}

func (w Writer) titleOf(r Run) string {
	kinds := strings.Join(r.Kinds, ", ")
	switch {
	case r.Command != "" && kinds != "":
		return render.Safe(r.Command + " (" + kinds + ")")
	case r.Command != "" || kinds != "":
		return render.Safe(r.Command + kinds)
	case r.IDs.Trace.IsZero() && len(r.Invocations) == 0:
		return "in no known run"
	}
	var did []string // as far as any act says
	for _, a := range r.Acts {
		did = with(did, string(a.Kind))
	}
	return render.Safe(strings.Join(did, ", "))
}

// words are the command without its arguments.
func (a Act) words() []string {
	for i, word := range a.Typed {
		if i > 0 && (strings.HasPrefix(word, "-") || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz-") != "") {
			return a.Typed[:i]
		}
	}
	if len(a.Typed) > 0 {
		return a.Typed
	}
	return []string{a.Name}
}

// since is how many days after the first run a run began.
func (l Lineage) since(r Run) string {
	days := int(r.Began.Sub(l.Runs[0].Began).Hours() / 24)
	if r.Began.IsZero() || days < 1 {
		return ""
	}
	return fmt.Sprintf("+%dd", days)
}

// moment prints a time; dashes if unknown.
func moment(t time.Time, form string) string {
	if t.IsZero() {
		return strings.Repeat("-", len(form))
	}
	return t.UTC().Format(form)
}

func brief(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
