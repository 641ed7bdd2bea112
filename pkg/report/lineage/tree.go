package lineage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// branch is a node of the tree: a line, details, and the branches below.
type branch struct {
	head  string
	lines []string
	kids  []branch
	last  bool
}

func (b branch) draw(out *strings.Builder, before string) {
	knot, below := "├─ ", "│  "
	if b.last {
		knot, below = "└─ ", "   "
	}
	fmt.Fprintf(out, "%s%s%s\n", before, knot, b.head)
	rail := "   "
	if len(b.kids) > 0 {
		rail = "│  "
	}
	for _, line := range b.lines {
		fmt.Fprintf(out, "%s%s%s%s\n", before, below, rail, line)
	}
	for _, kid := range b.kids {
		kid.draw(out, before+below)
	}
}

// joint are acts on one line: the same act by the same signer for several
// artifacts.
type joint struct {
	Act
	spans []trace.SpanID
	count int
}

// joined joins such acts of a run. Each step has a line of its own.
func joined(acts []Act) (list []joint) {
	for _, a := range acts {
		i := slices.IndexFunc(list, func(j joint) bool { return j.Kind != Step && j.Kind != Command && j.like(a) })
		if i < 0 {
			list = append(list, joint{a, []trace.SpanID{a.IDs.Span}, 1})
			continue
		}
		j := &list[i]
		j.count++
		j.spans = append(j.spans, a.IDs.Span)
		j.Artifacts = append(slices.Clip(j.Artifacts), a.Artifacts...)
		if a.until().After(j.until()) {
			j.Ended = a.until()
		}
		if a.Entry != nil && j.Entry != nil && a.Entry.Index < j.Entry.Index {
			j.Entry = a.Entry
		}
	}
	return list
}

// like reports whether two acts differ only in their artifacts.
func (a Act) like(o Act) bool {
	return a.Kind == o.Kind && a.Name == o.Name && a.By == o.By && a.Mark == o.Mark && a.Traced == o.Traced && a.Result == o.Result &&
		a.Why == o.Why && a.Upstream == o.Upstream && (a.Kind == Summary || a.Route.To == o.Route.To && a.Route.From == o.Route.From)
}

func (w Writer) act(j joint, r Run, t Target, last bool) branch {
	b := branch{last: last, head: moment(j.when(), "15:04:05") + " " + bar(j.Act, r) + " " + j.title()}
	if j.Mark == Hint {
		b.head += "  hint"
		if j.Kind != Command && j.Why != unasked { // reported once, in a note
			b.lines = append(b.lines, render.Safe(j.Why))
		}
	}
	for _, l := range t.Lines {
		if !l.Span.IsZero() && slices.Contains(j.spans, l.Span) {
			b.head += fmt.Sprintf("  ← line %d", l.Line)
		}
	}
	if j.Traced == Hint && j.Mark == Verified {
		b.lines = append(b.lines, "its trace is a hint: the signed evidence names none")
	}
	if j.Kind == Command {
		return b
	}
	if signed := j.signed(); signed != "" {
		b.lines = append(b.lines, signed)
	}
	if j.Route.From != "" {
		b.lines = append(b.lines, "from "+render.Safe(j.Route.From))
	}
	if j.Route.To != "" {
		b.lines = append(b.lines, "to   "+render.Safe(strings.TrimSpace(w.short(j.Route.To)+" "+strings.Join(j.Route.Tags, " "))))
	}
	if j.Of > 0 || j.Kind == Step || j.Kind == Signature || j.Kind == Promotion {
		b.lines = append(b.lines, w.artifacts(j.Artifacts)...)
	}
	if j.Log != nil {
		b.lines = append(b.lines, strings.TrimSpace("log  "+w.digest(j.Log.Digest)+" "+render.Safe(j.Log.Path)))
	}
	return b
}

// title describes an act.
func (j joint) title() string {
	n := max(j.Of, len(j.Artifacts))
	text := ""
	switch j.Kind {
	case Step:
		text = "step " + j.Name
	case Signature:
		text = "signed " + plural.Of(n, "artifact")
	case Seal:
		text = "sealed " + j.Name + ", " + plural.Of(n, "artifact")
	case Amendment:
		text = "amended " + j.Name + ", " + plural.Of(n, "artifact") + ": " + j.Result
	case Withdrawal:
		text = "WITHDREW " + j.Name + ": " + j.Result
	case Promotion:
		text = "promoted " + plural.Of(n, "image")
	case Summary:
		text = j.Result + " by " + j.Name
	case Command:
		text = "began " + j.Name + j.ending()
	default:
		text = "stated " + j.Name
	}
	if j.Upstream {
		text += " (upstream)"
	}
	return render.Safe(text)
}

// ending describes how a command ended.
func (j joint) ending() string {
	switch j.Result {
	case commandDone:
		return ", done after " + brief(max(0, j.Ended.Sub(j.Began)))
	case commandFailed:
		return ", failed after " + brief(max(0, j.Ended.Sub(j.Began)))
	case commandRunning:
		return ", which still runs"
	}
	return ", which never ended"
}

// signed describes who signed an act, and its log entry.
func (j joint) signed() string {
	if j.By == "" {
		return ""
	}
	text := "by " + render.Safe(j.By)
	if j.Role != "" {
		text += " (" + render.Safe(j.Role) + ")"
	}
	if j.Kind == Step && !j.SignedAt.IsZero() {
		text += " at " + moment(j.SignedAt, "15:04:05")
	}
	if j.Entry != nil {
		text += fmt.Sprintf(", log entry %d", j.Entry.Index)
		if j.count > 1 {
			text += fmt.Sprintf(" and %d more", j.count-1)
		}
	}
	return text
}

// artifacts prints artifacts: the first few, or all with Verbose.
func (w Writer) artifacts(list []Artifact) (lines []string) {
	shown := list
	if !w.Verbose && len(list) > few+1 {
		shown = list[:few]
	}
	for _, a := range shown {
		sum := a.SHA256
		if sum.IsZero() {
			sum = a.SHA512
		}
		lines = append(lines, strings.TrimSpace(render.Safe(a.Name)+" "+w.digest(sum)))
	}
	if more := len(list) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more; --verbose lists all", more))
	}
	return lines
}

// digest prints a digest, short unless Verbose.
func (w Writer) digest(d digest.Digest) string {
	if text := d.String(); w.Verbose || len(text) <= 19 {
		return text
	}
	return d.String()[:19] + "…"
}

// short shortens the digest in an address as [Writer.digest] does.
func (w Writer) short(address string) string {
	name, sum, pinned := strings.Cut(address, "@")
	d, err := digest.Parse(sum)
	if !pinned || err != nil {
		return address
	}
	return name + "@" + w.digest(d)
}

// cells is the width of a run's time bar.
const cells = 12

// bar draws when within its run an act happened, and how long it took.
func bar(a Act, r Run) string {
	all := r.span()
	if a.when().IsZero() || all < time.Millisecond {
		return strings.Repeat("·", cells)
	}
	at := func(t time.Time) int { return min(cells-1, int(int64(cells)*int64(t.Sub(r.Began))/int64(all))) }
	from, to := at(a.when()), at(a.until())
	return strings.Repeat("·", from) + strings.Repeat("█", max(1, to-from+1)) + strings.Repeat("·", cells-1-max(from, to))
}
