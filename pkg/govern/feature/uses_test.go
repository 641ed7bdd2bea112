package feature_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
)

// TestF23: a wait clears the uses, lets a window pass, and ends if every expected
// reporter came with the new value and nobody with the old. Each row differs
// from the first in one fact.
func TestF23(t *testing.T) {
	use := func(who string, value bool, at time.Duration) feature.Use {
		return feature.Use{Identity: who, Version: "v0.2.0", Checked: true, Value: value, LastSeen: noon().Add(at)}
	}
	both := []feature.Use{use("nightly", true, time.Minute), use("promoter", true, 50*time.Minute)}
	for _, row := range []struct {
		name  string
		uses  []feature.Use
		at    time.Duration
		done  bool
		opens bool // the window is opened again
		says  string
	}{
		{"everybody has the new value", both, window, true, false, "all of 2 reporters"},
		{"the window is not over", both, window - time.Second, false, false, "every reporter has reported"},
		{"nobody ran", nil, window, false, true, "nightly, promoter"},
		{"one did not run", both[:1], window, false, true, "missing from: promoter"},
		{"one has the old value", []feature.Use{both[0], use("promoter", false, time.Minute)}, window, false, true, "reported by promoter (v0.2.0)"},
		{"one has both values", append([]feature.Use{use("promoter", false, time.Minute)}, both...), window, false, true, "reported by promoter"},
		{"a stranger has the old value", append([]feature.Use{use("laptop", false, time.Minute)}, both...), window, false, true, "reported by laptop"},
		{"a stranger has the old value, by a clock that is years behind", append([]feature.Use{use("laptop", false, -30_000*time.Hour)}, both...), window, false, true, "reported by laptop"},
		{"the old value is seen before the window is over", append([]feature.Use{use("laptop", false, 0)}, both...), time.Minute, false, true, "reported by laptop"},
		{"a stranger has the new value too", append([]feature.Use{use("laptop", true, time.Minute)}, both...), window, true, false, "all of 2 reporters"},
		{"a stranger instead of one", []feature.Use{both[0], use("laptop", true, time.Minute)}, window, false, true, "missing from: promoter"},
		{"one saw it long before the window", []feature.Use{both[0], use("promoter", true, -16*time.Minute)}, window, false, true, "its clock is behind"},
		{"one's clock is a little behind", []feature.Use{both[0], use("promoter", true, -14*time.Minute)}, window, true, false, "all of 2"},
		{"one's clock is far ahead", []feature.Use{both[0], use("promoter", true, 3*time.Hour)}, window, false, true, "its clock is ahead"},
		{"the reconciler's clock went back", both, -30 * time.Minute, false, false, "the window ends"},
		{"the window was opened in the far future", both, -3 * time.Hour, false, true, "a clock was wrong"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := reach(t, feature.TurningOn)
			f, err := feature.Report(w.in.Feature, row.uses...)
			if err != nil {
				t.Fatal(err)
			}
			w.in.Feature, w.in.Now = f, noon().Add(row.at)
			w.pass()
			s := w.in.Feature.Status
			if len(s.Done) == 1 != row.done {
				t.Fatalf("done: %+v, want %t; %q", s.Done, row.done, s.Tasks[0].Message)
			}
			said, opened := s.Tasks[0].Message, s.Tasks[0].Since.Equal(w.in.Now) && len(s.Uses) == 0
			if row.done {
				said, opened = s.Done[0].Message, false
			}
			if !strings.Contains(said, row.says) || opened != row.opens {
				t.Errorf("it says %q and opened a window: %t; want %q, %t", said, opened, row.says, row.opens)
			}
		})
	}
}

// TestWaitsForNobody: a list of expected reporters that is empty decides
// nothing.
func TestWaitsForNobody(t *testing.T) {
	w := reach(t, feature.TurningOn)
	w.in.Expected = nil
	if step, err := feature.Next(w.in); err == nil {
		t.Errorf("it went on: %+v", step)
	}
}

// TestOldValueWhileOthersRun: who comes with the old value after the wait, while
// the other tasks run, is waited for again before the state changes.
func TestOldValueWhileOthersRun(t *testing.T) {
	w := reach(t, feature.TurningOn)
	w.heard(true)
	audit := *w.pass().Run
	w.report(false, "laptop")
	w.apply(audit, feature.Outcome{Done: true, Message: "3 images"})
	s := w.in.Feature.Status
	if w.state() != feature.TurningOn || len(s.Tasks) != 1 || s.Tasks[0].Kind != feature.WaitForUses || !strings.Contains(s.Tasks[0].Message, "laptop") {
		t.Fatalf("%s: %+v", w.state(), s.Tasks)
	}
	w.heard(true)
	if w.state() != feature.On {
		t.Errorf("it is %s after everybody was heard", w.state())
	}
}

// TestFullObjectsMove: with as many uses and reporters as there may be, all of
// them with long names, the feature still goes on and off for as long as anybody
// likes, and people who keep coming with the old value do not fill it either.
func TestFullObjectsMove(t *testing.T) {
	w := newWorld(t)
	w.in.Expected = nil
	for i := range feature.MaxUses / 2 {
		w.in.Expected = append(w.in.Expected, fmt.Sprintf("%0200d", i))
	}
	for i := range 6 {
		w.want([]feature.State{feature.On, feature.Off}[i%2])
		w.finish()
	}
	if s := w.in.Feature.Status; s.Number != 12 || s.State != feature.Off || len(s.History) >= 12 {
		t.Errorf("%s after %d transitions, %d of them kept", s.State, s.Number, len(s.History))
	}
	w.want(feature.On)
	w.pass()
	w.heard(true)
	w.apply(*w.pass().Run, feature.Outcome{Remaining: 5000, Names: slices.Repeat([]string{strings.Repeat(`"`, 500)}, 5000)})
	if f, err := feature.Parse(raw(t, w.in.Feature)); err != nil || len(f.Status.Tasks[0].Names) < 100 {
		t.Errorf("with all that remains: %v", err)
	}
	w = reach(t, feature.TurningOn)
	w.heard(true)
	audit := *w.pass().Run
	w.report(false, "laptop")
	w.apply(audit, feature.Outcome{Done: true})
	for range 70 {
		w.report(true, w.in.Expected...)
		w.in.Now = w.in.Now.Add(window)
		w.report(false, "laptop")
		w.pass()
	}
	if w.heard(true); w.state() != feature.On {
		t.Errorf("it is %s: %+v", w.state(), w.in.Feature.Status.Tasks)
	}
	w.in.Expected = append(w.in.Expected, strings.Repeat("x", 201))
	if _, err := feature.Next(w.in); err == nil {
		t.Error("a name without end is taken")
	}
}

// TestReport: what one says twice stands once, what differs stands beside it,
// and reporting changes nothing else.
func TestReport(t *testing.T) {
	w := reach(t, feature.TurningOn)
	before := w.in.Feature
	w.report(false, "promoter")
	w.report(true, "promoter", "promoter", "nightly")
	if got := w.in.Feature.Status.Uses; len(got) != 3 || got[0].Identity != "nightly" || got[1].Value || !got[2].Value {
		t.Errorf("%+v", got)
	}
	if err := feature.OnlyUses(before, w.in.Feature); err != nil {
		t.Error(err)
	}
	for _, bad := range []feature.Use{{}, {Identity: "x", Version: "v0.2.0"}, {Identity: "x\ny", Version: "v0.2.0", LastSeen: noon()}, {Identity: "x", Version: "2", LastSeen: noon()}} {
		if _, err := feature.Report(before, bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestReportIsBounded: a full list refuses while somebody waits, because the old
// value could be among what is dropped; else the oldest goes.
func TestReportIsBounded(t *testing.T) {
	fill := func(w *world) (feature.Feature, error) {
		var uses []feature.Use
		for i := range feature.MaxUses + 1 {
			uses = append(uses, feature.Use{Identity: fmt.Sprintf("job-%d", i), Version: "v0.2.0", LastSeen: noon().Add(time.Duration(i) * time.Second)})
		}
		return feature.Report(w.in.Feature, uses...)
	}
	if _, err := fill(reach(t, feature.TurningOn)); err == nil {
		t.Error("a use was dropped while somebody waits")
	}
	f, err := fill(reach(t, feature.Off))
	if err != nil || len(f.Status.Uses) != feature.MaxUses {
		t.Fatalf("%d uses, %v", len(f.Status.Uses), err)
	}
	for _, u := range f.Status.Uses {
		if u.Identity == "job-0" {
			t.Error("the oldest was kept")
		}
	}
	if raw, err := f.Bytes(); err != nil || len(raw) > feature.MaxSize {
		t.Errorf("a full object has %d bytes, %v", len(raw), err)
	}
	f = feature.DropOldUses(f, noon().Add(100*24*time.Hour))
	if len(f.Status.Uses) != 0 {
		t.Errorf("%d uses are kept for ever", len(f.Status.Uses))
	}
}

// TestF17: reporters write uses and people what they want of dynamic features;
// anything else in an update of theirs is refused.
func TestF17(t *testing.T) {
	w := reach(t, feature.TurningOn)
	before := w.in.Feature
	for name, change := range map[string]func(*feature.Feature){
		"a state":     func(f *feature.Feature) { *f = reach(t, feature.On).in.Feature },
		"a task less": func(f *feature.Feature) { f.Status.Tasks = f.Status.Tasks[1:] },
		"a window":    func(f *feature.Feature) { f.Status.Tasks[0].Since = noon().Add(-window) },
		"a condition": func(f *feature.Feature) {
			*f = feature.WithConditions(*f, feature.Condition{Type: feature.Dangling, Status: "False"})
		},
		"a statement":  func(f *feature.Feature) { f.Status.History[0].Statement = "none" },
		"another name": func(f *feature.Feature) { f.Metadata.Name = "RequireWick" },
		"the dynamics": func(f *feature.Feature) { f.Spec.Dynamic = true },
		"a wish":       func(f *feature.Feature) { f.Spec.Desired = feature.Off },
		"a scope":      func(f *feature.Feature) { f.Spec.Scope = feature.Scope{Repositories: []string{"a.example.test/b"}} },
	} {
		raw, _ := before.Bytes()
		after, _ := feature.Parse(raw)
		change(&after)
		if feature.OnlyUses(before, after) == nil {
			t.Errorf("a reporter changes %s", name)
		}
		if feature.OnlyWishes(before, after) == nil {
			t.Errorf("people change %s of what is not dynamic", name)
		}
	}
	dynamic := before
	dynamic.Spec.Dynamic = true
	after := dynamic
	after.Spec.Desired = feature.Off
	if err := feature.OnlyWishes(dynamic, after); err != nil {
		t.Errorf("people may not change what is dynamic: %v", err)
	}
	if feature.OnlyUses(dynamic, after) == nil {
		t.Error("a reporter changes a wish")
	}
}
