package trace_test

import (
	"testing"
	"testing/quick"

	"github.com/waybill-release/waybill/pkg/value/trace"
)

// A request of a user, of another user, and one that a process of ours makes
// for the life of an object.
func user() trace.Context  { return trace.Context{Trace: trace.ID{1}, Span: trace.SpanID{1}} }
func later() trace.Context { return trace.Context{Trace: trace.ID{2}, Span: trace.SpanID{2}} }
func controller(initial trace.ID) trace.Context {
	return trace.Context{Trace: trace.ID{3}, Span: trace.SpanID{3}, Initial: initial}
}

// stamped checks what an object carries after an action on what it carried.
func stamped(t *testing.T, op trace.Op, now trace.Context, existing, want trace.IDs, conflicts bool) trace.IDs {
	t.Helper()
	got, conflict := trace.Stamp(op, now, existing)
	if got != want || (conflict != nil) != conflicts {
		t.Errorf("action %d in %+v of %+v gives %+v (%v), want %+v", op, now, existing, got, conflict, want)
	}
	return got
}

// TestT04IDsLiveAsLongAsTheObject: they begin when it is made, and the record of
// its end has the last of them. What is made anew under its name is another
// object, with a beginning of its own.
func TestT04IDsLiveAsLongAsTheObject(t *testing.T) {
	made := stamped(t, trace.Create, user(), trace.IDs{}, trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{1}, Initial: trace.ID{1}}, false)
	ended := stamped(t, trace.Delete, later(), made, trace.IDs{Trace: trace.ID{2}, Span: trace.SpanID{2}, Initial: trace.ID{1}}, false)
	if ended.Initial != made.Initial {
		t.Errorf("it began as %s and ended as %s", made.Initial, ended.Initial)
	}
	stamped(t, trace.Create, later(), trace.IDs{}, trace.IDs{Trace: trace.ID{2}, Span: trace.SpanID{2}, Initial: trace.ID{2}}, false)
}

// TestT05CreateByAUser: there is no context, so the request begins the life of
// the object: all three ids are stamped.
func TestT05CreateByAUser(t *testing.T) {
	stamped(t, trace.Create, user(), trace.IDs{}, trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{1}, Initial: trace.ID{1}}, false)
}

// TestT06LaterActByAUser: trace and span are of the new request, the beginning
// stays; where it is not known nobody makes one up.
func TestT06LaterActByAUser(t *testing.T) {
	known := trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{1}, Initial: trace.ID{1}}
	for _, op := range []trace.Op{trace.Update, trace.Delete, trace.Create} {
		stamped(t, op, later(), known, trace.IDs{Trace: trace.ID{2}, Span: trace.SpanID{2}, Initial: trace.ID{1}}, false)
	}
	for _, op := range []trace.Op{trace.Update, trace.Delete} {
		stamped(t, op, later(), trace.IDs{}, trace.IDs{Trace: trace.ID{2}, Span: trace.SpanID{2}}, false)
	}
}

// TestT07ActByAController: the context is there, so the trace goes on, and what
// is made belongs to the life that it came with. What was there keeps its own,
// and a difference is said.
func TestT07ActByAController(t *testing.T) {
	life, other := trace.ID{1}, trace.ID{9}
	acted := trace.IDs{Trace: trace.ID{3}, Span: trace.SpanID{3}, Initial: life}
	stamped(t, trace.Create, controller(life), trace.IDs{}, acted, false)
	for _, op := range []trace.Op{trace.Create, trace.Update, trace.Delete} {
		existing := trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{1}, Initial: life}
		stamped(t, op, controller(life), existing, acted, false)
		stamped(t, op, controller(other), existing, acted, true)
	}
	for _, op := range []trace.Op{trace.Update, trace.Delete} { // older than the ids
		stamped(t, op, controller(life), trace.IDs{}, trace.IDs{Trace: trace.ID{3}, Span: trace.SpanID{3}}, false)
	}
	_, conflict := trace.Stamp(trace.Update, controller(other), trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{1}, Initial: life})
	if conflict == nil || conflict.Kept != life || conflict.Offered != other {
		t.Errorf("the conflict is %+v", conflict)
	}
}

// TestT10StampIsAFunction: whatever acts in whatever order on whatever there is,
// the same gives the same, a beginning that is written is never written again,
// and without an action nothing changes.
func TestT10StampIsAFunction(t *testing.T) {
	property := func(op int8, now trace.Context, existing trace.IDs) bool {
		got, conflict := trace.Stamp(trace.Op(op%5), now, existing)
		again, _ := trace.Stamp(trace.Op(op%5), now, existing)
		switch {
		case got != again:
			return false
		case now.IsZero() || trace.Op(op%5) < trace.Create || trace.Op(op%5) > trace.Delete:
			return got == existing && conflict == nil
		case !existing.Initial.IsZero() && got.Initial != existing.Initial:
			return false
		case conflict != nil && (conflict.Kept != got.Initial || conflict.Offered != now.Initial || conflict.Kept == conflict.Offered):
			return false
		}
		return got.Trace == now.Trace && got.Span == now.Span
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
	for _, now := range []trace.Context{{}, {Trace: trace.ID{1}}, {Span: trace.SpanID{1}}} {
		stamped(t, trace.Create, now, trace.IDs{}, trace.IDs{}, false)
	}
}
