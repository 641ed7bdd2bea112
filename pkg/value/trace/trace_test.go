package trace_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/trace"
)

// Ids of the examples in W3C Trace Context.
const (
	someTrace = "0af7651916cd43dd8448eb211c80319c"
	someSpan  = "b7ad6b7169203331"
)

func mustID(t *testing.T, text string) trace.ID {
	t.Helper()
	id, err := trace.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestIDsAreStrict: an id has all its digits, in lower case, and is not zero.
func TestIDsAreStrict(t *testing.T) {
	if got := mustID(t, someTrace).String(); got != someTrace {
		t.Errorf("%s reads as %s", someTrace, got)
	}
	for name, bad := range map[string]string{
		"empty": "", "short": someTrace[1:], "long": someTrace + "0", "upper case": strings.ToUpper(someTrace),
		"zero": strings.Repeat("0", 32), "no digit": "g" + someTrace[1:], "space": " " + someTrace[1:],
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := trace.ParseID(bad); err == nil || !id.IsZero() {
				t.Errorf("%q reads as %s, %v", bad, id, err)
			}
			if len(bad) < 17 {
				return
			}
			if id, err := trace.ParseSpanID(bad[:16]); name != "long" && (err == nil || !id.IsZero()) && name != "short" {
				t.Errorf("%q reads as span %s, %v", bad[:16], id, err)
			}
		})
	}
}

// TestObjectsCarryIDsInJSON: what is written is read again, and what is not
// known is not written.
func TestObjectsCarryIDsInJSON(t *testing.T) {
	span, err := trace.ParseSpanID(someSpan)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ids  trace.IDs
		want string
	}{
		{trace.IDs{}, `{}`},
		{trace.IDs{Trace: mustID(t, someTrace), Span: span}, `{"traceId":"` + someTrace + `","spanId":"` + someSpan + `"}`},
		{trace.IDs{Trace: mustID(t, someTrace), Initial: mustID(t, someTrace)}, `{"traceId":"` + someTrace + `","initialTraceId":"` + someTrace + `"}`},
	} {
		raw, err := json.Marshal(c.ids)
		if err != nil || string(raw) != c.want {
			t.Errorf("%v is written as %s, %v, want %s", c.ids, raw, err, c.want)
		}
		var back trace.IDs
		if err := json.Unmarshal(raw, &back); err != nil || back != c.ids {
			t.Errorf("%s is read as %v, %v", raw, back, err)
		}
		if back := trace.FromAnnotations(c.ids.Annotations()); back != c.ids {
			t.Errorf("annotations %v are read as %v", c.ids.Annotations(), back)
		}
	}
}

// TestTraceparent: the rules of W3C Trace Context, each row one fact away from
// a context that is read.
func TestTraceparent(t *testing.T) {
	good := "00-" + someTrace + "-" + someSpan + "-01"
	now, err := trace.ParseTraceparent(good)
	if err != nil || now.Trace.String() != someTrace || now.Span.String() != someSpan || !now.Sampled || now.Random || !now.Initial.IsZero() {
		t.Fatalf("%s reads as %+v, %v", good, now, err)
	}
	if got := now.Traceparent(); got != good {
		t.Errorf("%s is written as %s", good, got)
	}
	for name, bad := range map[string]string{
		"empty":                   "",
		"short":                   good[:54],
		"version ff":              "ff" + good[2:],
		"version in upper case":   "0A" + good[2:],
		"version 00 is longer":    good + "-00",
		"higher version runs on":  "cc" + good[2:] + "00",
		"zero trace":              "00-" + strings.Repeat("0", 32) + "-" + someSpan + "-01",
		"zero span":               "00-" + someTrace + "-" + strings.Repeat("0", 16) + "-01",
		"upper-case trace":        strings.ToUpper(good),
		"flags are no digits":     good[:53] + "0x",
		"no hyphen after version": "00" + "_" + good[3:],
		"no hyphen after trace":   good[:35] + "_" + good[36:],
		"no hyphen after span":    good[:52] + "_" + good[53:],
		"leading space":           " " + good,
		"enormous":                "01" + good[2:] + "-" + strings.Repeat("0", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			if now, err := trace.ParseTraceparent(bad); err == nil || now != (trace.Context{}) {
				t.Errorf("%q reads as %+v, %v", bad, now, err)
			}
		})
	}
	for text, want := range map[string]string{
		"cc" + good[2:] + "-what-comes-then": good,
		"01" + good[2:53] + "ff":             good[:53] + "03",
		good[:53] + "00":                     good[:53] + "00",
		good[:53] + "02":                     good[:53] + "02",
		good[:53] + "fd":                     good,
	} {
		if now, err := trace.ParseTraceparent(text); err != nil || now.Traceparent() != want {
			t.Errorf("%q reads as %q, %v, want %q", text, now.Traceparent(), err, want)
		}
	}
}

// TestBaggage: one member is read, whatever stands around it; nothing else of
// it is ever written.
func TestBaggage(t *testing.T) {
	member := "initial-trace-id=" + someTrace
	for text, want := range map[string]string{
		"":                                   "",
		"user=alice":                         "",
		member:                               someTrace,
		"user=alice, " + member + ",k=v":     someTrace,
		member + ";ttl=1":                    someTrace,
		" initial-trace-id\t=  " + someTrace: someTrace,
		"x-" + member:                        "",
		"Initial-Trace-Id=" + someTrace:      "",
	} {
		if id, err := trace.ParseBaggage(text); err != nil || id.String() != want {
			t.Errorf("%q reads as %q, %v, want %q", text, id, err, want)
		}
	}
	for name, bad := range map[string]string{
		"no value": "initial-trace-id", "empty": "initial-trace-id=", "short": member[:40], "twice": member + "," + member,
		"zero": "initial-trace-id=" + strings.Repeat("0", 32), "upper case": "initial-trace-id=" + strings.ToUpper(someTrace),
		"too long": member + "," + strings.Repeat("a", 8192),
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := trace.ParseBaggage(bad); err == nil || !id.IsZero() {
				t.Errorf("%q reads as %q", bad, id)
			}
		})
	}
	now := trace.Context{Initial: mustID(t, someTrace)}
	if got := now.Baggage(); got != member {
		t.Errorf("is written as %q", got)
	}
}

// TestManglingNeverPasses: each byte of a traceparent changed gives either
// another context or none, and never a crash.
func TestManglingNeverPasses(t *testing.T) {
	good := "00-" + someTrace + "-" + someSpan + "-01"
	was, _ := trace.ParseTraceparent(good)
	for i := range len(good) {
		for _, c := range []byte{0, ' ', '-', '0', 'f', 'F', 'g', 0x7f, 0xff} {
			if good[i] == c || i > 52 || i < 2 { // flags and versions that are not known are allowed
				continue
			}
			mangled := good[:i] + string(rune(c)) + good[i+1:]
			if now, err := trace.ParseTraceparent(mangled); err == nil && now == was {
				t.Errorf("%q reads as %q does", mangled, good)
			}
		}
		if _, err := trace.ParseTraceparent(good[:i]); err == nil {
			t.Errorf("%q is read", good[:i])
		}
	}
}

// FuzzTraceparent: what is read is written so that it is read again.
func FuzzTraceparent(f *testing.F) {
	f.Add("00-"+someTrace+"-"+someSpan+"-01", "initial-trace-id="+someTrace)
	f.Fuzz(func(t *testing.T, parent, baggage string) {
		if now, err := trace.ParseTraceparent(parent); err == nil {
			if again, err := trace.ParseTraceparent(now.Traceparent()); err != nil || again != now {
				t.Errorf("%q: %+v is read again as %+v, %v", parent, now, again, err)
			}
		}
		if id, err := trace.ParseBaggage(baggage); err == nil {
			if again, err := trace.ParseBaggage(trace.Context{Initial: id}.Baggage()); err != nil || again != id {
				t.Errorf("%q: %s is read again as %s, %v", baggage, id, again, err)
			}
		}
	})
}
