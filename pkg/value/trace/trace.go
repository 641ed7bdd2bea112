// Package trace has the three ids that lead from a line of a log to the run that
// wrote it, and from an artifact to every run that changed it:
//
//   - a trace id is one request of a user: one run of a command, and every
//     process that it starts or asks;
//   - a span id is one action within it: a step of a build, a signature, a
//     promotion, a decision;
//   - an initial trace id is the trace in which an object was created. A release
//     that is built tonight, promoted next week and signed again in March has
//     three trace ids and one initial trace id.
//
// The package reads and writes them in the forms of W3C Trace Context (level 2)
// and W3C Baggage, and decides with [Stamp] which of them an object has after an
// action. It generates no ids and uses neither a clock nor a tracing library:
// those are in [github.com/waybill-release/waybill/pkg/backend/tracing/span].
//
//	now, err := trace.ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
//	ids, conflict := trace.Stamp(trace.Create, now, trace.IDs{})
//	// ids.Initial is ids.Trace: the object was created in this trace
package trace

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// ID names a trace. The zero value names none.
type ID [16]byte

// ParseID reads 32 lower-case hexadecimal digits that are not all zero.
func ParseID(text string) (id ID, _ error) {
	err := parseHex(id[:], text, "trace id")
	return id, err
}

// String is 32 lower-case hexadecimal digits, or empty for the zero value.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// IsZero reports that the id is unset.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText is [ID.String]. Optional fields need omitzero.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is [ParseID].
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}

// SpanID names an action within a trace. The zero value names none.
type SpanID [8]byte

// ParseSpanID reads 16 lower-case hexadecimal digits that are not all zero.
func ParseSpanID(text string) (id SpanID, _ error) {
	err := parseHex(id[:], text, "span id")
	return id, err
}

// String is 16 lower-case hexadecimal digits, or empty for the zero value.
func (id SpanID) String() string {
	if id.IsZero() {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// IsZero reports that the id is unset.
func (id SpanID) IsZero() bool { return id == SpanID{} }

// MarshalText is [SpanID.String]. Optional fields need omitzero.
func (id SpanID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is [ParseSpanID].
func (id *SpanID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseSpanID(string(text))
	return err
}

// parseHex fills an id from lower-case digits. It leaves it empty on an error.
func parseHex(id []byte, text, what string) error {
	if len(text) != 2*len(id) {
		return fmt.Errorf("a %s has %d hexadecimal digits, not %d characters", what, 2*len(id), len(text))
	}
	raw, err := hex.DecodeString(text)
	if err != nil || strings.ToLower(text) != text {
		return fmt.Errorf("%s %q: want lower-case hexadecimal digits", what, text)
	}
	if strings.Trim(text, "0") == "" {
		return fmt.Errorf("%s %q: all digits are zero, which is no id", what, text)
	}
	copy(id, raw)
	return nil
}

// Context is where an action belongs: its trace, its parent span, and the initial
// trace of the object that it acts on. The zero value is no action.
type Context struct {
	Trace   ID
	Span    SpanID
	Initial ID   // of the object that is acted on; zero until it is known
	Sampled bool // somebody records the trace
	Random  bool // all of the trace id's rightmost seven bytes are random
}

// IsZero reports that there is no action: a context needs a trace and a span.
func (c Context) IsZero() bool { return c.Trace.IsZero() || c.Span.IsZero() }

// IDs are the ids that are stored with an object: of the last action on it, and of
// the trace in which it was created. A zero Initial means that the origin is
// unknown, as for an object older than the ids; it is never guessed.
type IDs struct {
	Trace   ID     `json:"traceId,omitzero"`
	Span    SpanID `json:"spanId,omitzero"`
	Initial ID     `json:"initialTraceId,omitzero"`
}

// IsZero reports that the object has no ids.
func (ids IDs) IsZero() bool { return ids == IDs{} }

// Op is what an action does with an object. The zero value does nothing.
type Op int

// What may be done with an object.
const (
	Create Op = iota + 1 // the object is created
	Update               // an existing object is changed or extended
	Delete               // the object is deleted; the record of the deletion has the stamp
)

// A Conflict is an action whose initial trace id is not the one of the object. The
// object keeps its own.
type Conflict struct {
	Kept    ID
	Offered ID
}

// Error names both ids.
func (c *Conflict) Error() string {
	return fmt.Sprintf("the initial trace id of the object is %s and does not change; the action has %s", c.Kept, c.Offered)
}

// Stamp decides which ids an object has after an action. existing are the ids
// before it; without any, the object is new or older than the ids.
//
//   - A user creates an object: there is no initial id yet, so the trace of the
//     request becomes it.
//   - A user acts on an object later: its trace and span are of this request,
//     its initial id stays.
//   - A service acts for a user: the request brings the trace and the initial id
//     (now.Initial is set). Objects that it creates get that initial id; existing
//     ones keep theirs.
//
// An initial id is written once, when the object is created; an unknown origin
// stays unknown. Without an action nothing changes.
func Stamp(op Op, now Context, existing IDs) (IDs, *Conflict) {
	if now.IsZero() || op < Create || op > Delete {
		return existing, nil
	}
	stamped := IDs{Trace: now.Trace, Span: now.Span, Initial: existing.Initial}
	switch {
	case op == Create && existing.Initial.IsZero() && now.Initial.IsZero():
		stamped.Initial = now.Trace
	case op == Create && existing.Initial.IsZero():
		stamped.Initial = now.Initial
	case !existing.Initial.IsZero() && !now.Initial.IsZero() && existing.Initial != now.Initial:
		return stamped, &Conflict{Kept: existing.Initial, Offered: now.Initial}
	}
	return stamped, nil
}
