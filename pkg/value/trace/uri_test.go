package trace_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/value/trace"
)

func someIDs() trace.IDs {
	return trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{2}, Initial: trace.ID{3}}
}

// TestURI: whatever is known comes back, and nothing is made up.
func TestURI(t *testing.T) {
	whole := someIDs()
	for name, ids := range map[string]trace.IDs{
		"whole":             whole,
		"of unknown origin": {Trace: whole.Trace, Span: whole.Span},
		"a trace alone":     {Trace: whole.Trace},
	} {
		got, err := trace.ParseURI(trace.URI(ids))
		if err != nil || got != ids {
			t.Errorf("%s: %s came back as %v, %v", name, trace.URI(ids), got, err)
		}
	}
	if uri := trace.URI(trace.IDs{Span: whole.Span, Initial: whole.Initial}); uri != "" {
		t.Errorf("no trace, and the address is %q", uri)
	}
}

// TestURIRefused mangles an address: every prefix but the two that end at an id,
// and every byte.
func TestURIRefused(t *testing.T) {
	ids := someIDs()
	uri := trace.URI(ids)
	whole := map[string]bool{
		trace.URI(trace.IDs{Trace: ids.Trace}): true, trace.URI(trace.IDs{Trace: ids.Trace, Span: ids.Span}): true,
	}
	for i := range len(uri) {
		if got, err := trace.ParseURI(uri[:i]); err == nil && !whole[uri[:i]] {
			t.Errorf("%q is read as %v", uri[:i], got)
		}
		bumped := []byte(uri)
		bumped[i] ^= 0x20
		if got, err := trace.ParseURI(string(bumped)); err == nil {
			t.Errorf("%q is read as %v", bumped, got)
		}
	}
	for _, text := range []string{uri + ":", uri + ":x", " " + uri, uri + "\n"} {
		if got, err := trace.ParseURI(text); err == nil || !got.IsZero() {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
