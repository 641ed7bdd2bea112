package trace

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// The names of the ids, for all code that writes or reads one.
const (
	// LogTrace, LogSpan and LogInitial are keys of every line of a JSON log:
	// the first two are OpenTelemetry's names for logs that are not OTLP.
	LogTrace   = "trace_id"
	LogSpan    = "span_id"
	LogInitial = "initial_trace_id"
	// AnnotationTrace, AnnotationSpan and AnnotationInitial annotate referrers
	// in a registry. They are hints: a signed id outweighs them.
	AnnotationTrace   = "dev.waybill.trace-id"
	AnnotationSpan    = "dev.waybill.span-id"
	AnnotationInitial = "dev.waybill.initial-trace-id"
	// URN begins the URI of a trace where a format asks for a URI.
	URN = "urn:waybill:trace:"

	// baggageInitial is the one member of baggage that is read and written.
	baggageInitial = "initial-trace-id"
	// maxHeader is how long baggage may be by its specification; no traceparent
	// of any version comes near it.
	maxHeader = 8192
)

// ParseTraceparent reads a traceparent as W3C Trace Context says: version 00
// exactly; a higher version by the parts that version 00 has, which it must
// begin with; version ff never.
func ParseTraceparent(text string) (c Context, err error) {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < length || len(text) > maxHeader {
		return Context{}, fmt.Errorf("a traceparent has %d characters, not %d", length, len(text))
	}
	version, err := octet(text[0:2])
	switch {
	case err != nil:
		return Context{}, fmt.Errorf("version of a traceparent: %w", err)
	case version == 0xff:
		return Context{}, errors.New("version ff of a traceparent is forbidden")
	case version == 0 && len(text) != length:
		return Context{}, fmt.Errorf("a traceparent of version 00 has %d characters, not %d", length, len(text))
	case len(text) > length && text[length] != '-',
		text[2] != '-', text[35] != '-', text[52] != '-':
		return Context{}, errors.New("want hyphens between the parts of a traceparent")
	}
	if c.Trace, err = ParseID(text[3:35]); err != nil {
		return Context{}, err
	}
	if c.Span, err = ParseSpanID(text[36:52]); err != nil {
		return Context{}, err
	}
	flags, err := octet(text[53:55])
	if err != nil {
		return Context{}, fmt.Errorf("flags of a traceparent: %w", err)
	}
	c.Sampled, c.Random = flags&1 != 0, flags&2 != 0
	return c, nil
}

// octet reads two lower-case hexadecimal digits.
func octet(text string) (byte, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || strings.ToLower(text) != text {
		return 0, fmt.Errorf("%q are not two lower-case hexadecimal digits", text)
	}
	return raw[0], nil
}

// Traceparent writes c in version 00, and nothing for no action.
func (c Context) Traceparent() string {
	if c.IsZero() {
		return ""
	}
	flags := byte(0)
	if c.Sampled {
		flags |= 1
	}
	if c.Random {
		flags |= 2
	}
	return fmt.Sprintf("00-%s-%s-%02x", c.Trace, c.Span, flags)
}

// ParseBaggage reads the initial trace id from baggage. All other members are
// dropped and not propagated. Without the member there is no id and no error; a
// member that is no id, or is given twice, is an error.
func ParseBaggage(text string) (found ID, err error) {
	if len(text) > maxHeader {
		return ID{}, fmt.Errorf("baggage of %d bytes: at most %d are read", len(text), maxHeader)
	}
	for member := range strings.SplitSeq(text, ",") {
		member, _, _ = strings.Cut(member, ";") // its properties
		key, value, _ := strings.Cut(member, "=")
		if strings.Trim(key, " \t") != baggageInitial {
			continue
		}
		id, err := ParseID(strings.Trim(value, " \t"))
		switch {
		case err != nil:
			return ID{}, fmt.Errorf("%s of baggage: %w", baggageInitial, err)
		case !found.IsZero():
			return ID{}, fmt.Errorf("baggage names its %s twice", baggageInitial)
		}
		found = id
	}
	return found, nil
}

// Baggage writes the initial trace id, and nothing if it is not known.
func (c Context) Baggage() string {
	if c.Initial.IsZero() {
		return ""
	}
	return baggageInitial + "=" + c.Initial.String()
}

// Annotations writes the ids that an object has as annotations.
func (ids IDs) Annotations() map[string]string {
	all := map[string]string{}
	for name, value := range map[string]string{
		AnnotationTrace: ids.Trace.String(), AnnotationSpan: ids.Span.String(), AnnotationInitial: ids.Initial.String(),
	} {
		if value != "" {
			all[name] = value
		}
	}
	return all
}

// FromAnnotations reads the ids of an object. An annotation that is not an id is
// ignored: annotations are hints that anybody may have written.
func FromAnnotations(all map[string]string) IDs {
	trace, _ := ParseID(all[AnnotationTrace])
	span, _ := ParseSpanID(all[AnnotationSpan])
	initial, _ := ParseID(all[AnnotationInitial])
	return IDs{Trace: trace, Span: span, Initial: initial}
}

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
func ParseURI(text string) (ids IDs, err error) {
	rest, ours := strings.CutPrefix(text, URN)
	parts := strings.SplitN(rest, ":", 4)
	if !ours || len(parts) > 3 {
		return IDs{}, fmt.Errorf("%.200q: want %sTRACE, TRACE:SPAN or TRACE:SPAN:INITIAL", text, URN)
	}
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
