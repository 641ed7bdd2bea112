package carry_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/trace"
	"github.com/waybill-release/waybill/pkg/trace/carry"
)

// TestLine: lines of a run say on what it acts once that is known, and nothing
// where it acts on several that began differently, or on one that does not say.
func TestLine(t *testing.T) {
	now := trace.Context{Trace: trace.ID{1}, Span: trace.SpanID{1}}
	for name, row := range map[string]struct {
		met  []trace.ID
		want trace.ID
	}{
		"nothing yet":      {nil, trace.ID{}},
		"one":              {[]trace.ID{{7}}, trace.ID{7}},
		"one, twice":       {[]trace.ID{{7}, {7}}, trace.ID{7}},
		"two":              {[]trace.ID{{7}, {8}}, trace.ID{}},
		"two and the last": {[]trace.ID{{7}, {8}, {8}}, trace.ID{}},
		"unknown":          {[]trace.ID{{}}, trace.ID{}},
		"one and unknown":  {[]trace.ID{{7}, {}}, trace.ID{}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := carry.With(carry.Run(t.Context()), now)
			for _, id := range row.met {
				if act := carry.WithInitial(ctx, id); carry.From(act).Initial != id || carry.From(ctx).Initial != (trace.ID{}) {
					t.Errorf("the act is of %s, the run of %s", carry.From(act).Initial, carry.From(ctx).Initial)
				}
			}
			if got := carry.Line(ctx); got.Initial != row.want || got.Trace != now.Trace || got.Span != now.Span {
				t.Errorf("a line says %+v", got)
			}
		})
	}
	if act := carry.WithInitial(carry.With(carry.Run(t.Context()), now), trace.ID{9}); carry.Line(act).Initial != (trace.ID{9}) {
		t.Error("a line of an act does not say the act's own")
	}
}
