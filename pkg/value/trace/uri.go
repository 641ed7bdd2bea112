package trace

import (
	"fmt"
	"strings"
)

// URI writes what an object carries as one address: [URN] and the ids that are
// known, with colons between them. It is for formats that have a place for an
// address and none for three ids. Without a trace it is empty; a span is
// written of a trace only, and an initial id after a span only.
func URI(ids IDs) string {
	switch {
	case ids.Trace.IsZero():
		return ""
	case ids.Span.IsZero():
		return URN + ids.Trace.String()
	case ids.Initial.IsZero():
		return URN + ids.Trace.String() + ":" + ids.Span.String()
	}
	return URN + ids.Trace.String() + ":" + ids.Span.String() + ":" + ids.Initial.String()
}

// ParseURI reads what [URI] writes, and nothing else.
func ParseURI(text string) (IDs, error) {
	rest, ours := strings.CutPrefix(text, URN)
	parts := strings.SplitN(rest, ":", 4)
	if !ours || len(parts) > 3 {
		return IDs{}, fmt.Errorf("%.200q: want %sTRACE, TRACE:SPAN or TRACE:SPAN:INITIAL", text, URN)
	}
	var ids IDs
	var err error
	if ids.Trace, err = ParseID(parts[0]); err != nil {
		return IDs{}, err
	}
	if len(parts) > 1 {
		if ids.Span, err = ParseSpanID(parts[1]); err != nil {
			return IDs{}, err
		}
	}
	if len(parts) > 2 {
		if ids.Initial, err = ParseID(parts[2]); err != nil {
			return IDs{}, err
		}
	}
	return ids, nil
}
