package seal

import (
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/trace"
	"github.com/waybill-release/waybill/pkg/trace/carry"
)

// TestSignedIn: whoever signs a manifest is in it once, and the trace in which
// the release came to be stays what it is, or stays unknown.
func TestSignedIn(t *testing.T) {
	begun := trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{1}, Initial: trace.ID{1}}
	now := trace.Context{Trace: trace.ID{2}, Span: trace.SpanID{2}}
	for name, row := range map[string]struct {
		first release.Run
		now   trace.Context
		want  trace.ID // the beginning that the last run names
		runs  int
	}{
		"a later run":                {release.RunOf(release.RunBuild, "a", begun, ""), now, trace.ID{1}, 2},
		"one with another beginning": {release.RunOf(release.RunBuild, "a", begun, ""), trace.Context{Trace: now.Trace, Span: now.Span, Initial: trace.ID{9}}, trace.ID{1}, 2},
		"a release from before":      {release.Run{Kind: release.RunBuild, ID: "a"}, now, trace.ID{}, 2},
		"from before, with another":  {release.Run{Kind: release.RunBuild, ID: "a"}, trace.Context{Trace: now.Trace, Span: now.Span, Initial: trace.ID{9}}, trace.ID{}, 2},
		"no run":                     {release.RunOf(release.RunBuild, "a", begun, ""), trace.Context{}, trace.ID{1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := release.Manifest{Runs: []release.Run{row.first}}
			ctx := carry.With(t.Context(), row.now)
			signed := SignedIn(ctx, m, release.RunAmend, "waybill seal")
			last := signed.Runs[len(signed.Runs)-1]
			if len(signed.Runs) != row.runs || release.IDsOf(last).Initial != row.want || len(m.Runs) != 1 {
				t.Errorf("%+v", signed.Runs)
			}
			if row.runs == 2 && (last.Kind != release.RunAmend || release.IDsOf(last).Trace != now.Trace || last.ID != now.Trace.String() || release.CommandOf(last) != "waybill seal") {
				t.Errorf("the run that signed is %+v", last)
			}
			if again := SignedIn(ctx, signed, release.RunAmend, "waybill seal"); len(again.Runs) != row.runs {
				t.Errorf("the same act is there twice: %+v", again.Runs)
			}
		})
	}
}

// TestAsBefore: a list that was sealed is the same list in whatever run it is
// looked at, and one of another build is not.
func TestAsBefore(t *testing.T) {
	before := release.Manifest{Runs: []release.Run{{Kind: release.RunBuild, ID: "a", TraceID: "x"}, {Kind: release.RunSeal, ID: "b"}}}
	if same := asBefore(release.Manifest{Runs: []release.Run{{Kind: release.RunBuild, ID: "a"}}}, before); !slices.Equal(same.Runs, before.Runs) {
		t.Errorf("%+v", same.Runs)
	}
	for _, first := range []release.Run{{Kind: release.RunBuild, ID: "b"}, {Kind: release.RunSeal, ID: "a"}} {
		if other := asBefore(release.Manifest{Runs: []release.Run{first}}, before); len(other.Runs) != 1 {
			t.Errorf("%+v is taken for the same build", first)
		}
	}
}
