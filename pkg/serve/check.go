package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits on a log: longer lines do not belong to a record, and further breaks
// are only counted.
const (
	maxLine   = 64 << 10
	maxBreaks = 50
	maxKinds  = 1000
)

// RecordCheck reads logs of a service, and checks whether the record is
// complete: no line was edited, dropped or moved. Other lines in the log are
// skipped. A log contains one record for each start of the service, and may
// contain those of several services.
//
// A record whose end was cut off, or that was completely rewritten, is still
// consistent. Only a head stored elsewhere reveals that.
type RecordCheck struct {
	// Heads are ends of the record that were stored elsewhere, as GET /v1/audit
	// and the status page show them; one without an instance matches any
	// record. A log may begin right after one of them.
	Heads []api.Head

	inputs []verdict.Input
	chains map[string]*chain
	seen   []bool // heads
	breaks []verdict.Finding
	broken int64

	lines, unlinked int64
	counts          lineCounts
}

// lineCounts are statistics of the lines of a record.
type lineCounts struct {
	decisions, overridden, cached int64
	outcomes, callers, reasons    map[string]int64
	turnedAway                    map[string]int64
	first, last                   time.Time
}

// chain is the record of one start of the service, as far as it was read.
type chain struct {
	head     api.Head
	anchored int64 // number of the last line that a stored head confirms
}

// Read reads one log; pass several in the order in which they were written.
func (c *RecordCheck) Read(name string, r io.Reader) error {
	if c.chains == nil {
		c.chains, c.seen = map[string]*chain{}, make([]bool, len(c.Heads))
		c.counts = lineCounts{outcomes: map[string]int64{}, callers: map[string]int64{}, reasons: map[string]int64{}, turnedAway: map[string]int64{}}
	}
	whole := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(r, whole), maxLine)
	for at, more := 1, true; more; at++ {
		text, err := in.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return &verdict.UnavailableError{Place: name, Op: "reading", Err: err}
		}
		if more = err == nil; !tooLong {
			c.line(fmt.Sprintf("%s:%d", name, at), bytes.TrimSuffix(text, []byte("\n")))
		}
	}
	d, err := digest.ParseHex(digest.SHA256, hex.EncodeToString(whole.Sum(nil)))
	c.inputs = append(c.inputs, verdict.Input{Name: name, Digest: d})
	return err
}

// line reads a line, and skips it if it does not belong to a record. A prefix
// added by a log collector is ignored.
func (c *RecordCheck) line(where string, text []byte) {
	begin := bytes.IndexByte(text, '{')
	if begin < 0 || !bytes.Contains(text, []byte(`"instance":`)) {
		return
	}
	text = text[begin:]
	var l api.Line
	if err := strictjson.UnmarshalOpen(text, &l); err != nil || l.Instance == "" || l.Number < 1 {
		return
	}
	c.lines++
	c.counts.add(l)
	was := c.broken
	of := c.chains[l.Instance]
	if of == nil {
		of = &chain{head: api.Head{Instance: l.Instance}}
		c.checkFirst(where, l)
	} else {
		c.checkNext(where, l, of.head)
	}
	if c.broken > was {
		c.unlinked++
	}
	of.head = api.Head{Instance: l.Instance, Number: l.Number, Digest: digest.Of(digest.SHA256, text)}
	c.chains[l.Instance] = of
	for i, h := range c.Heads {
		if h.Number != l.Number || h.Instance != "" && h.Instance != l.Instance {
			continue
		}
		switch {
		case h.Digest.Equal(of.head.Digest):
			c.seen[i], of.anchored = true, l.Number
		case h.Instance != "":
			c.addBreak(where, "line %d of record %.50q differs from the stored head", l.Number, l.Instance)
		}
	}
}

func (c *RecordCheck) checkFirst(where string, l api.Line) {
	kept := func(h api.Head) bool {
		return (h.Instance == "" || h.Instance == l.Instance) && h.Number == l.Number-1 && h.Digest.Equal(l.Previous)
	}
	switch i := slices.IndexFunc(c.Heads, kept); {
	case l.Number == 1 && l.Message == api.Began && l.Previous.IsZero():
		c.checkContinued(where, l)
	case l.Number == 1:
		c.addBreak(where, "line 1 of record %.50q is not the beginning of a record", l.Instance)
	case i >= 0:
		c.seen[i] = true
	default:
		c.addBreak(where, "lines 1 to %d of record %.50q are missing: the log begins with line %d", l.Number-1, l.Instance, l.Number)
	}
}

// checkContinued checks that the record which this one continues is in the log.
func (c *RecordCheck) checkContinued(where string, l api.Line) {
	if l.After == nil {
		return
	}
	before := c.chains[l.After.Instance]
	if before == nil || before.head.Number < l.After.Number || before.head.Number == l.After.Number && before.head.Digest != l.After.Digest {
		c.addBreak(where, "record %.50q continues line %d of record %.50q, which is missing or different", l.Instance, l.After.Number, l.After.Instance)
	}
}

// checkNext checks that a line follows the one before it.
func (c *RecordCheck) checkNext(where string, l api.Line, head api.Head) {
	switch next := head.Number + 1; {
	case l.Number > next:
		c.addBreak(where, "lines %d to %d of record %.50q are missing: line %d follows line %d", next, l.Number-1, l.Instance, l.Number, head.Number)
	case l.Number < next:
		c.addBreak(where, "line %d of record %.50q comes after line %d: the line was moved or inserted", l.Number, l.Instance, head.Number)
	case !l.Previous.Equal(head.Digest):
		c.addBreak(where, "line %d of record %.50q does not match line %d before it, which was edited", l.Number, l.Instance, head.Number)
	}
}

func (c *RecordCheck) addBreak(where, format string, args ...any) {
	if c.broken++; len(c.breaks) < maxBreaks {
		c.breaks = append(c.breaks, verdict.Find("AUDIT_CHAIN", where, format, args...))
	}
}

func (c *lineCounts) add(l api.Line) {
	if c.first.IsZero() || l.Time.Before(c.first) {
		c.first = l.Time
	}
	if l.Time.After(c.last) {
		c.last = l.Time
	}
	switch l.Message {
	case api.Decided:
		c.decisions++
		tick(c.outcomes, l.Outcome)
		tick(c.callers, l.Principal)
		for _, code := range l.Reasons {
			tick(c.reasons, string(code))
		}
		if l.Verb == api.Override {
			c.overridden++
		}
		if l.Cached {
			c.cached++
		}
	case api.NotLetIn:
		tickBy(c.turnedAway, string(l.Code), max(1, l.Count))
	}
}

func tick(counts map[string]int64, name string) { tickBy(counts, name, 1) }

func tickBy(counts map[string]int64, name string, n int64) {
	if _, there := counts[name]; !there && len(counts) >= maxKinds {
		name = "others"
	}
	counts[name] += n
}

// Verdict returns the result, once all logs were read.
func (c *RecordCheck) Verdict(now time.Time) *verdict.Verdict {
	v := verdict.NewCheck("record of decisions", now)
	v.Scope.Checks = []string{"each line is linked to the one before it"}
	v.Inputs = c.inputs
	v.Counts.Required, v.Counts.Verified = int(max(1, c.lines)), int(c.lines-c.unlinked)
	v.Add(c.breaks...)
	if more := c.broken - int64(len(c.breaks)); more > 0 {
		v.Note("further breaks, not listed: %d", more)
	}
	if c.lines == 0 {
		v.Add(verdict.Find("AUDIT_CHAIN", "record", "the logs contain no line of a record"))
	}
	for i, h := range c.Heads {
		if c.lines > 0 && !c.seen[i] {
			v.Add(verdict.Find("AUDIT_CHAIN", "--head", "no line %d with this digest: the record was cut off or rewritten, or the head belongs to another record", h.Number).Differ(h.Digest.String(), ""))
		}
	}
	c.addNotes(v)
	return v
}

// addNotes reports the statistics, and the lines that no stored head confirms.
func (c *RecordCheck) addNotes(v *verdict.Verdict) {
	if c.lines == 0 {
		return
	}
	v.Note("lines: %d, from %s to %s; decisions: %d, of which %d were cached; overrides: %d", c.lines,
		c.counts.first.UTC().Format(time.RFC3339), c.counts.last.UTC().Format(time.RFC3339), c.counts.decisions, c.counts.cached, c.counts.overridden)
	for _, list := range []struct {
		what   string
		counts map[string]int64
	}{{"by outcome", c.counts.outcomes}, {"by caller", c.counts.callers}, {"by reason", c.counts.reasons}, {"not let in", c.counts.turnedAway}} {
		if len(list.counts) > 0 {
			v.Note("%s: %s", list.what, countsText(list.counts))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.chains)) {
		one := c.chains[name]
		v.Note("record %s ends with line %d, %s", showable(name), one.head.Number, one.head.Digest)
		if one.anchored < one.head.Number && len(v.Scope.Left) < maxBreaks {
			v.Scope.Left = append(v.Scope.Left, fmt.Sprintf("whether record %s was cut off or rewritten after line %d: no head was given for it", showable(name), one.anchored))
		}
	}
}

// countsText returns the counts in words, highest first.
func countsText(counts map[string]int64) string {
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	const few = 20
	words := slice.Map(names[:min(few, len(names))], func(name string) string { return fmt.Sprintf("%s %d", showable(name), counts[name]) })
	if len(names) > few {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

// showable makes foreign text safe to show.
func showable(text string) string {
	if text != "" && len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == "" {
		return text
	}
	return fmt.Sprintf("%.64q", text)
}
