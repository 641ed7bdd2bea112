package lineage

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits on reading a log: the length of a line, and the number of traces. The
// log itself may be endless.
const (
	maxLine  = 64 << 10
	maxFound = 1000
)

// Line is the first line of a log that names a trace, and how many lines do.
type Line struct {
	Line    int          `json:"line"`
	Trace   trace.ID     `json:"traceId,omitzero"`
	Span    trace.SpanID `json:"spanId,omitzero"`
	Initial trace.ID     `json:"initialTraceId,omitzero"`
	Count   int          `json:"count"`
}

// id is the id to look for: the trace, or the initial trace if the line names
// no other.
func (l Line) id() trace.ID {
	if l.Trace.IsZero() {
		return l.Initial
	}
	return l.Trace
}

// ReadLog finds the traces that the lines of a log name: our own JSON lines,
// JSON of others with the same keys, and text with a traceparent or with an id
// after its name. Text that merely looks like an id is ignored. Only the
// beginning of a long line is read.
func ReadLog(r io.Reader) (found []Line, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	at := map[Line]int{} // by ids alone
	for n := 1; ; n++ {
		text, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, verdict.Wrap(verdict.PlaceDown, "log", err)
		}
		for _, l := range linesOf(text) {
			i, known := at[l]
			if !known && len(found) == maxFound {
				return nil, verdict.Refuse(verdict.Limit, "log", "the log has more than %d different traces up to line %d", maxFound, n).
					Advise("select fewer lines, for example with grep or tail")
			}
			if !known {
				i = len(found)
				at[l] = i
				l.Line = n
				found = append(found, l)
			}
			found[i].Count++
		}
		if err != nil {
			return found, nil //nolint:nilerr // the log ended
		}
	}
}

// readLine reads a line and returns its beginning.
func readLine(in *bufio.Reader) ([]byte, error) {
	head, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return head, err
	}
	head = append([]byte(nil), head...)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return head, err
}

// inText are the forms in which text names an id. The characters around the id
// must not extend it.
var (
	parentInText  = pattern.Lazy(`(?:^|[^0-9A-Za-z_-])([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})(?:[^0-9A-Za-z_]|$)`)
	namedInText   = pattern.Lazy(`(?i:\b(initial[_-]trace[_-]id|initialtraceid|trace[_-]?id|span[_-]?id))"?\s*[=:]\s*"?([0-9a-f]+)(?:[^0-9A-Za-z_-]|$)`)
	coloured      = pattern.Lazy(`\x1b\[[0-9;]*m`) // as commands print it
	addressInText = regexp.MustCompile(regexp.QuoteMeta(trace.URN) + `([0-9a-f:]+)(?:[^0-9A-Za-z_-]|$)`)
)

// linesOf are the ids that a line names.
func linesOf(text []byte) (all []Line) {
	var said map[string]json.RawMessage
	if len(text) > 0 && text[0] == '{' && json.Unmarshal(text, &said) == nil {
		if l := ofJSON(said); l != (Line{}) {
			return []Line{l}
		}
	}
	text = coloured().ReplaceAll(text, nil)
	for _, m := range parentInText().FindAllSubmatch(text, -1) {
		if now, err := trace.ParseTraceparent(string(m[1])); err == nil {
			all = append(all, Line{Trace: now.Trace, Span: now.Span})
		}
	}
	for _, m := range addressInText.FindAllSubmatch(text, -1) {
		if ids, err := trace.ParseURI(trace.URN + string(m[1])); err == nil {
			all = append(all, Line{Trace: ids.Trace, Span: ids.Span, Initial: ids.Initial})
		}
	}
	if l := ofNames(text); l != (Line{}) {
		all = append(all, l)
	}
	return all
}

// ofJSON reads a line of JSON. Values that are not ids are ignored.
func ofJSON(said map[string]json.RawMessage) (l Line) {
	text := func(key string) string {
		var value string
		if json.Unmarshal(said[key], &value) != nil {
			return ""
		}
		return value
	}
	l.Trace, _ = trace.ParseID(text(trace.LogTrace))
	l.Initial, _ = trace.ParseID(text(trace.LogInitial))
	if !l.Trace.IsZero() {
		l.Span, _ = trace.ParseSpanID(text(trace.LogSpan))
	}
	return l
}

// ofNames reads ids after their names. If a line has two ids of one name, both
// are ignored: it is unclear which is meant.
func ofNames(text []byte) (l Line) {
	said := map[byte]string{}
	for _, m := range namedInText().FindAllSubmatch(text, -1) {
		kind := m[1][0] | 0x20 // the first letter, in lower case
		if value, twice := said[kind]; twice && value != string(m[2]) {
			return Line{}
		}
		said[kind] = string(m[2])
	}
	l.Trace, _ = trace.ParseID(said['t'])
	l.Initial, _ = trace.ParseID(said['i'])
	if !l.Trace.IsZero() {
		l.Span, _ = trace.ParseSpanID(said['s'])
	}
	return l
}

// said describes a line for people.
func (l Line) said() string {
	text := fmt.Sprintf("line %d", l.Line)
	if l.Count > 1 {
		text = fmt.Sprintf("line %d and %d more", l.Line, l.Count-1)
	}
	if !l.Trace.IsZero() {
		text += " trace " + l.Trace.String()
	}
	if !l.Span.IsZero() {
		text += " span " + l.Span.String()
	}
	if !l.Initial.IsZero() {
		text += " initial trace " + l.Initial.String()
	}
	return text
}
