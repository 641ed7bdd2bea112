package seal

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// TestSignedIn: whoever signs a manifest is in it once, and the trace in which
// the release came to be stays what it is, or stays unknown.
func TestSignedIn(t *testing.T) {
	begun := trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{1}, Initial: trace.ID{1}}
	now := trace.Context{Trace: trace.ID{2}, Span: trace.SpanID{2}}
	for name, row := range map[string]struct {
		first manifest.Run
		now   trace.Context
		want  trace.ID // the beginning that the last run names
		runs  int
	}{
		"a later run":                {manifest.RunOf(manifest.RunBuild, "a", begun, ""), now, trace.ID{1}, 2},
		"one with another beginning": {manifest.RunOf(manifest.RunBuild, "a", begun, ""), trace.Context{Trace: now.Trace, Span: now.Span, Initial: trace.ID{9}}, trace.ID{1}, 2},
		"a release from before":      {manifest.Run{Kind: manifest.RunBuild, ID: "a"}, now, trace.ID{}, 2},
		"from before, with another":  {manifest.Run{Kind: manifest.RunBuild, ID: "a"}, trace.Context{Trace: now.Trace, Span: now.Span, Initial: trace.ID{9}}, trace.ID{}, 2},
		"no run":                     {manifest.RunOf(manifest.RunBuild, "a", begun, ""), trace.Context{}, trace.ID{1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := manifest.Manifest{Runs: []manifest.Run{row.first}}
			ctx := carry.With(t.Context(), row.now)
			signed := SignedIn(ctx, m, manifest.RunAmend, "waybill seal")
			last := signed.Runs[len(signed.Runs)-1]
			if len(signed.Runs) != row.runs || manifest.IDsOf(last).Initial != row.want || len(m.Runs) != 1 {
				t.Errorf("%+v", signed.Runs)
			}
			if row.runs == 2 && (last.Kind != manifest.RunAmend || manifest.IDsOf(last).Trace != now.Trace || last.ID != now.Trace.String() || manifest.CommandOf(last) != "waybill seal") {
				t.Errorf("the run that signed is %+v", last)
			}
			if again := SignedIn(ctx, signed, manifest.RunAmend, "waybill seal"); len(again.Runs) != row.runs {
				t.Errorf("the same act is there twice: %+v", again.Runs)
			}
		})
	}
}

// TestAsBefore: a list that was sealed is the same list in whatever run it is
// looked at, and one of another build is not.
func TestAsBefore(t *testing.T) {
	before := manifest.Manifest{Runs: []manifest.Run{{Kind: manifest.RunBuild, ID: "a", TraceID: "x"}, {Kind: manifest.RunSeal, ID: "b"}}}
	if same := asBefore(manifest.Manifest{Runs: []manifest.Run{{Kind: manifest.RunBuild, ID: "a"}}}, before); !slices.Equal(same.Runs, before.Runs) {
		t.Errorf("%+v", same.Runs)
	}
	for _, first := range []manifest.Run{{Kind: manifest.RunBuild, ID: "b"}, {Kind: manifest.RunSeal, ID: "a"}} {
		if other := asBefore(manifest.Manifest{Runs: []manifest.Run{first}}, before); len(other.Runs) != 1 {
			t.Errorf("%+v is taken for the same build", first)
		}
	}
}

// TestTells: what a draft says is taken up if an act of the journal was under way
// at its time, and every run in it is known.
func TestTells(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 999, time.UTC) }
	build, before, now := manifest.Run{Kind: manifest.RunBuild, ID: "a"}, manifest.Run{Kind: manifest.RunSeal, ID: "b"}, manifest.Run{Kind: manifest.RunSeal, ID: "c"}
	h := History{Sealings: []Sealing{{at(10), at(20), before}, {Began: at(30), Run: now}}}
	m := manifest.Manifest{Runs: []manifest.Run{build, now}}
	for name, row := range map[string]struct {
		sealed time.Time
		runs   []manifest.Run
		want   bool
	}{
		"of an act that was interrupted": {at(15), []manifest.Run{build, before}, true},
		"at the second that it began":    {at(10).Truncate(time.Second), []manifest.Run{build, before}, true},
		"of this act":                    {at(31), []manifest.Run{build, now}, true},
		"without runs":                   {at(15), nil, true},
		"before any":                     {at(9), []manifest.Run{build, before}, false},
		"between two":                    {at(25), []manifest.Run{build, before}, false},
		"of a run that is not known":     {at(15), []manifest.Run{build, {Kind: manifest.RunSeal, ID: "d"}}, false},
		"of another build":               {at(15), []manifest.Run{{Kind: manifest.RunBuild, ID: "d"}, before}, false},
	} {
		if got := h.explains(manifest.Manifest{SealedOn: row.sealed, Runs: row.runs}, m); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (History{}).explains(manifest.Manifest{SealedOn: at(15)}, m) {
		t.Error("a journal that says nothing")
	}
}
