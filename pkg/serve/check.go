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
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Bounds of what is read of a log: a longer line is none of a record, and of
// more breaks than that no more are told.
const (
	maxLine   = 64 << 10
	maxBreaks = 50
	maxKinds  = 1000
)

// RecordCheck reads logs of a service, and says whether its record is whole: no
// line of it edited, dropped or moved. Lines of others in between are passed
// over. A log holds the record of each start of the service, and can hold those
// of several services.
//
// What was cut off at the end, and a log that was written anew as a whole, hold
// together all the same. Only a head that was kept elsewhere shows that.
type RecordCheck struct {
	// Heads are ends of the record that were kept elsewhere, as GET /v1/audit and
	// the status page tell them; one without an instance is of any. A log that
	// begins after one of them is whole from there on.
	Heads []api.Head

	inputs []verdict.Input
	chains map[string]*chain
	seen   []bool // heads
	breaks []verdict.Finding
	broken int64

	lines, unlinked int64
	counts          lineCounts
}

// lineCounts are what the lines of a record say, counted.
type lineCounts struct {
	decisions, overridden, cached int64
	outcomes, callers, reasons    map[string]int64
	turnedAway                    map[string]int64
	first, last                   time.Time
}

// chain is the record of one start of the service, as far as it was read.
type chain struct {
	head     api.Head
	anchored int64 // the last number that a head was kept of
}

// Read reads one log; several are read in the order in which they were written.
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

// line reads a line, and passes it over if it is none of a record. What a
// collector of logs puts before it does not count.
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
		c.begins(where, l)
	} else {
		c.follows(where, l, of.head)
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
			c.broke(where, "line %d of %.50q is another one than the head that was kept says", l.Number, l.Instance)
		}
	}
}

// begins looks at the first line that there is of a record.
func (c *RecordCheck) begins(where string, l api.Line) {
	kept := func(h api.Head) bool {
		return (h.Instance == "" || h.Instance == l.Instance) && h.Number == l.Number-1 && h.Digest.Equal(l.Previous)
	}
	switch i := slices.IndexFunc(c.Heads, kept); {
	case l.Number == 1 && l.Message == api.Began && l.Previous.IsZero():
		c.goesOn(where, l)
	case l.Number == 1:
		c.broke(where, "line 1 of %.50q is not how a record begins", l.Instance)
	case i >= 0:
		c.seen[i] = true
	default:
		c.broke(where, "lines 1 to %d of %.50q are not there: it begins with line %d", l.Number-1, l.Instance, l.Number)
	}
}

// goesOn looks whether the record that could not be written on is there.
func (c *RecordCheck) goesOn(where string, l api.Line) {
	if l.After == nil {
		return
	}
	before := c.chains[l.After.Instance]
	if before == nil || before.head.Number < l.After.Number || before.head.Number == l.After.Number && before.head.Digest != l.After.Digest {
		c.broke(where, "%.50q goes on from line %d of %.50q, which is not there, or another one", l.Instance, l.After.Number, l.After.Instance)
	}
}

// follows looks whether a line follows the one before it.
func (c *RecordCheck) follows(where string, l api.Line, head api.Head) {
	switch next := head.Number + 1; {
	case l.Number > next:
		c.broke(where, "lines %d to %d of %.50q are not there: line %d follows line %d", next, l.Number-1, l.Instance, l.Number, head.Number)
	case l.Number < next:
		c.broke(where, "line %d of %.50q comes after line %d: it was moved, or put in", l.Number, l.Instance, head.Number)
	case !l.Previous.Equal(head.Digest):
		c.broke(where, "line %d of %.50q was written after another line %d than is there: that one was edited", l.Number, l.Instance, head.Number)
	}
}

func (c *RecordCheck) broke(where, format string, args ...any) {
	if c.broken++; len(c.breaks) < maxBreaks {
		c.breaks = append(c.breaks, verdict.Find(verdict.AuditChain, where, format, args...))
	}
}

// add counts what a line says.
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

// Verdict is the answer, once all logs were read.
func (c *RecordCheck) Verdict(now time.Time) *verdict.Verdict {
	v := verdict.NewCheck("record of decisions", now)
	v.Scope.Checks = []string{"each line is linked to the one before it"}
	v.Inputs = c.inputs
	v.Counts.Required, v.Counts.Verified = int(max(1, c.lines)), int(c.lines-c.unlinked)
	v.Add(c.breaks...)
	if more := c.broken - int64(len(c.breaks)); more > 0 {
		v.Note("%d more breaks are not listed", more)
	}
	if c.lines == 0 {
		v.Add(verdict.Find(verdict.AuditChain, "record", "no line of a record is there"))
	}
	for i, h := range c.Heads {
		if c.lines > 0 && !c.seen[i] {
			v.Add(verdict.Find(verdict.AuditChain, "--head", "line %d with this digest is not there: the end was cut off, it was written anew, or it is another's", h.Number).Differ(h.Digest.String(), ""))
		}
	}
	c.tell(v)
	return v
}

// tell says what was counted, and what nobody kept a head of.
func (c *RecordCheck) tell(v *verdict.Verdict) {
	if c.lines == 0 {
		return
	}
	v.Note("%d lines from %s to %s: %d decisions, %d of them decided before, %d overrides", c.lines,
		c.counts.first.UTC().Format(time.RFC3339), c.counts.last.UTC().Format(time.RFC3339), c.counts.decisions, c.counts.cached, c.counts.overridden)
	for _, list := range []struct {
		what   string
		counts map[string]int64
	}{{"by outcome", c.counts.outcomes}, {"by caller", c.counts.callers}, {"by reason", c.counts.reasons}, {"not let in", c.counts.turnedAway}} {
		if len(list.counts) > 0 {
			v.Note("%s: %s", list.what, most(list.counts))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.chains)) {
		one := c.chains[name]
		v.Note("record %s ends with line %d, %s", shown(name), one.head.Number, one.head.Digest)
		if one.anchored < one.head.Number && len(v.Scope.Left) < maxBreaks {
			v.Scope.Left = append(v.Scope.Left, fmt.Sprintf("whether record %s was cut off or written anew after line %d: no head of it was given", shown(name), one.anchored))
		}
	}
}

// most are counts in words, the highest first.
func most(counts map[string]int64) string {
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	const few = 20
	var words []string
	for _, name := range names[:min(few, len(names))] {
		words = append(words, fmt.Sprintf("%s %d", shown(name), counts[name]))
	}
	if len(names) > few {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

// shown is foreign text as it can be shown.
func shown(text string) string {
	if text != "" && len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == "" {
		return text
	}
	return fmt.Sprintf("%.64q", text)
}
