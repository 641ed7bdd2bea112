package trace

import (
	"fmt"
	"strings"
)

// URI writes the ids of an object as one URI: [URN] and the known ids, with colons
// between them, for formats that have room for a URI but not for three ids. It is
// empty without a trace; a span needs a trace, and an initial id needs a span.
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
