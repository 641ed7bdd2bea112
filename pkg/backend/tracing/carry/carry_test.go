package carry_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// TestLine: lines of a run say on what it acts once that is known, whatever the
// run came with, and nothing where it acts on several that began differently, or
// on one that does not say.
func TestLine(t *testing.T) {
	now := trace.Context{Trace: trace.ID{1}, Span: trace.SpanID{1}}
	for name, row := range map[string]struct {
		offered trace.ID
		met     []trace.ID
		want    trace.ID
	}{
		"nothing yet":              {trace.ID{}, nil, trace.ID{}},
		"one":                      {trace.ID{}, []trace.ID{{7}}, trace.ID{7}},
		"one, twice":               {trace.ID{}, []trace.ID{{7}, {7}}, trace.ID{7}},
		"two":                      {trace.ID{}, []trace.ID{{7}, {8}}, trace.ID{}},
		"two and the last":         {trace.ID{}, []trace.ID{{7}, {8}, {8}}, trace.ID{}},
		"unknown":                  {trace.ID{}, []trace.ID{{}}, trace.ID{}},
		"one and unknown":          {trace.ID{}, []trace.ID{{7}, {}}, trace.ID{}},
		"offered, nothing yet":     {trace.ID{9}, nil, trace.ID{9}},
		"offered what it is":       {trace.ID{7}, []trace.ID{{7}}, trace.ID{7}},
		"offered another":          {trace.ID{9}, []trace.ID{{7}}, trace.ID{7}},
		"offered to unknown":       {trace.ID{9}, []trace.ID{{}}, trace.ID{}},
		"offered one of two":       {trace.ID{7}, []trace.ID{{7}, {8}}, trace.ID{}},
		"offered another than two": {trace.ID{9}, []trace.ID{{7}, {8}}, trace.ID{}},
	} {
		t.Run(name, func(t *testing.T) {
			now := now
			now.Initial = row.offered
			ctx := carry.With(carry.Run(t.Context()), now)
			for _, id := range row.met {
				act := carry.WithInitial(ctx, id)
				if carry.From(act).Initial != id || carry.From(ctx).Initial != row.offered {
					t.Errorf("the act is of %s, the run of %s", carry.From(act).Initial, carry.From(ctx).Initial)
				}
				below := carry.With(act, trace.Context{Trace: now.Trace, Span: trace.SpanID{2}, Initial: id}) // as a span below it
				if got := carry.Line(below).Initial; got != id {
					t.Errorf("a line of a part of the act of %s says %s", id, got)
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
