package feature_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func v(t testing.TB, text string) version.Version {
	t.Helper()
	out, err := version.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

const window = time.Hour

// gateKey is the feature of these tests.
var gateKey = feature.Key{Namespace: "waybill", Name: "RequireLantern"}

// definition is a feature with tasks in all its ways, of which the form changes
// in v0.4.
func definition(t testing.TB) feature.Definition {
	return feature.Definition{
		Name: gateKey.Name, About: "every image has a lantern",
		Versions: []feature.Version{
			{Since: v(t, "v0.2.0"), Stage: feature.Alpha, Default: feature.Off, Schema: 1},
			{Since: v(t, "v0.4.0"), Stage: feature.Beta, Default: feature.On, Schema: 2},
			{Since: v(t, "v0.9.0"), Removed: true},
		},
		OnTasks:      []feature.Job{{Kind: feature.Sweep, Name: "Audit"}},
		OffTasks:     []feature.Job{{Kind: feature.Sweep, Name: "Strip"}, {Kind: feature.Hold, Name: "Held"}},
		UpgradeTasks: []feature.Job{{Kind: feature.Sweep, Name: "Rewrite"}}, DowngradeTasks: []feature.Job{{Kind: feature.Sweep, Name: "WriteBack"}},
	}
}

// world drives a feature through passes, as a reconciler does.
type world struct {
	t  testing.TB
	in feature.Input
}

func newWorld(t testing.TB) *world {
	d := definition(t)
	f, err := feature.Announce(gateKey, d, v(t, "v0.2.0"))
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, in: feature.Input{
		Feature: f, Definition: d, Running: v(t, "v0.2.0"), Reconciler: "gate-1", Expected: []string{"nightly", "promoter"}, Window: window, Now: noon(),
	}}
}

func (w *world) want(s feature.State) { w.in.Wanted = &feature.Wanted{Desired: s} }

func (w *world) state() feature.State { return w.in.Feature.Status.State }

// pass makes one pass; what is to be signed is signed.
func (w *world) pass() feature.Step {
	w.t.Helper()
	step, err := feature.Next(w.in)
	if err != nil {
		w.t.Fatal(err)
	}
	if step.Sign != nil {
		f, err := feature.Signed(w.in.Feature, step.Sign.Number, "statements/1")
		if err != nil {
			w.t.Fatal(err)
		}
		w.in.Feature = f
		return w.pass()
	}
	w.keep(step)
	return step
}

// keep stores what a step says, through its bytes.
func (w *world) keep(step feature.Step) {
	w.t.Helper()
	raw, err := step.Feature.Bytes()
	if err != nil {
		w.t.Fatal(err)
	}
	if w.in.Feature, err = feature.Parse(raw); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) apply(ran feature.Task, o feature.Outcome) {
	w.t.Helper()
	step, err := feature.Apply(w.in, ran, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.keep(step)
}

func (w *world) report(value bool, who ...string) {
	w.t.Helper()
	var uses []feature.Use
	for _, name := range who {
		uses = append(uses, feature.Use{Identity: name, Version: w.in.Running.String(), Checked: true, Value: value, LastSeen: w.in.Now})
	}
	var err error
	if w.in.Feature, err = feature.Report(w.in.Feature, uses...); err != nil {
		w.t.Fatal(err)
	}
}

// heard lets everybody report and the window pass.
func (w *world) heard(value bool) {
	w.t.Helper()
	w.report(value, w.in.Expected...)
	w.in.Now = w.in.Now.Add(window)
	w.pass()
}

// finish runs every task successfully, until nothing is left.
func (w *world) finish() {
	w.t.Helper()
	for range 20 {
		step := w.pass()
		switch tasks := w.in.Feature.Status.Tasks; {
		case step.Run != nil:
			w.apply(*step.Run, feature.Outcome{Done: true})
		case len(tasks) == 0 && !step.Changed:
			return
		case len(tasks) > 0 && tasks[0].Kind == feature.WaitForUses:
			w.heard(w.state() == feature.TurningOn || w.state() == feature.On)
		}
	}
	w.t.Fatalf("it never ends: %+v", w.in.Feature.Status)
}

// reach is a world in a state.
func reach(t testing.TB, s feature.State) *world {
	w := newWorld(t)
	if s == feature.Off {
		return w
	}
	w.want(feature.On)
	w.pass()
	if s == feature.TurningOn {
		return w
	}
	w.finish()
	if s == feature.TurningOff {
		w.want(feature.Off)
		w.pass()
	}
	if w.state() != s {
		t.Fatalf("it is %s, want %s", w.state(), s)
	}
	return w
}

func kinds(f feature.Feature) []string {
	var list []string
	for _, task := range f.Status.Tasks {
		list = append(list, task.Name)
	}
	return list
}

// TestF16: the four states, and every way between them: each state with each
// wish and each outcome of its first task.
func TestF16(t *testing.T) {
	tasksOn, tasksOff := []string{"WaitForUses", "Audit"}, []string{"WaitForUses", "Strip", "Held"}
	for _, row := range []struct {
		from, want, to feature.State
		tasks          []string
	}{
		{feature.Off, feature.Off, feature.Off, nil},
		{feature.Off, feature.On, feature.TurningOn, tasksOn},
		{feature.Off, "", feature.Off, nil}, // the default of v0.2 is Off
		{feature.TurningOn, feature.On, feature.TurningOn, tasksOn},
		{feature.TurningOn, feature.Off, feature.TurningOff, tasksOff},
		{feature.TurningOn, "", feature.TurningOff, tasksOff},
		{feature.On, feature.On, feature.On, nil},
		{feature.On, feature.Off, feature.TurningOff, tasksOff},
		{feature.On, "", feature.TurningOff, tasksOff},
		{feature.TurningOff, feature.Off, feature.TurningOff, tasksOff},
		{feature.TurningOff, feature.On, feature.TurningOn, tasksOn},
		{feature.TurningOff, "", feature.TurningOff, tasksOff},
	} {
		t.Run(string(row.from)+" wants "+string(row.want), func(t *testing.T) {
			w := reach(t, row.from)
			w.want(row.want)
			w.pass()
			if w.state() != row.to || !slices.Equal(kinds(w.in.Feature), row.tasks) {
				t.Errorf("it is %s with %q, want %s with %q", w.state(), kinds(w.in.Feature), row.to, row.tasks)
			}
		})
	}
}

// TestF22: the first task is tried; what succeeds is removed, and the last one
// that is removed changes the state in the same step.
func TestF22(t *testing.T) {
	for _, row := range []struct {
		name    string
		outcome feature.Outcome
		left    []string
		message string
	}{
		{"done", feature.Outcome{Done: true, Message: "3 stripped"}, []string{"Held"}, ""},
		{"not yet", feature.Outcome{Remaining: 2, Message: "2 left"}, []string{"Strip", "Held"}, "2 left"},
		{"failed", feature.Outcome{Message: "the registry\nis down"}, []string{"Strip", "Held"}, "the registry is down"},
		{"done with something left", feature.Outcome{Done: true, Remaining: 1, Message: "1 left"}, []string{"Strip", "Held"}, "1 left"},
		{"nothing said", feature.Outcome{}, []string{"Strip", "Held"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := reach(t, feature.TurningOff)
			w.heard(false)
			ran := *w.pass().Run
			w.apply(ran, row.outcome)
			if got := w.in.Feature.Status.Tasks[0]; !slices.Equal(kinds(w.in.Feature), row.left) || got.Message != row.message || w.state() != feature.TurningOff {
				t.Errorf("%s, %q: %+v", w.state(), kinds(w.in.Feature), got)
			}
		})
	}
	w := reach(t, feature.TurningOff)
	w.heard(false)
	w.apply(*w.pass().Run, feature.Outcome{Done: true})
	last := *w.pass().Run
	w.apply(last, feature.Outcome{Done: true})
	if w.state() != feature.Off || len(w.in.Feature.Status.Tasks) != 0 {
		t.Errorf("after its last task it is %s", w.state())
	}
	w.apply(last, feature.Outcome{Done: true}) // said once more, by another reconciler
	if w.state() != feature.Off || w.in.Feature.Status.Number != 4 {
		t.Errorf("an outcome that came late changed something: %+v", w.in.Feature.Status)
	}
}

// TestOutcomeOfAnotherTask: what a task said that is not the first any more
// counts for nothing.
func TestOutcomeOfAnotherTask(t *testing.T) {
	w := reach(t, feature.TurningOff)
	w.heard(false)
	ran := *w.pass().Run
	w.want(feature.On) // meanwhile somebody turned it back
	w.pass()
	w.apply(ran, feature.Outcome{Done: true})
	if got := kinds(w.in.Feature); w.state() != feature.TurningOn || !slices.Equal(got, []string{"WaitForUses", "Audit"}) {
		t.Errorf("%s, %q", w.state(), got)
	}
}

// TestF20: a wish that is not the state makes a transition, and the list of its
// tasks is in the object: who reads it after a crash goes on where it was.
func TestF20(t *testing.T) {
	w := reach(t, feature.TurningOff)
	raw, err := w.in.Feature.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"WaitForUses", "Strip", "Held"} {
		if !strings.Contains(string(raw), `"name": "`+name+`"`) {
			t.Errorf("the object does not list %s", name)
		}
	}
	w.heard(false)
	ran := *w.pass().Run
	w.apply(ran, feature.Outcome{Remaining: 7, Message: "7 left"})
	w.apply(ran, feature.Outcome{Remaining: 5, Message: "5 left"})
	w.apply(ran, feature.Outcome{Remaining: 5, Message: "5 left"}) // the same again is no news
	if got := w.in.Feature.Status.Tasks[0]; got.Attempts != 2 || got.Remaining != 5 || got.Message != "5 left" {
		t.Errorf("%+v", got)
	}
	again, err := feature.Next(w.in)
	if err != nil || again.Run == nil || again.Run.Name != "Strip" || again.Changed {
		t.Errorf("after a crash: %+v, %v", again, err)
	}
}

// TestNamesOfWhatRemains: an object keeps the first names of what remains, each
// one line, with how many there are; others than before are news, and what is
// done leaves none.
func TestNamesOfWhatRemains(t *testing.T) {
	w := reach(t, feature.TurningOff)
	w.heard(false)
	ran := *w.pass().Run
	var long []string
	for i := range 1000 {
		long = append(long, fmt.Sprintf("r.example.test/lantern:v0.%d.0", i))
	}
	for i, row := range []struct{ names, kept []string }{
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{"a", "c"}, []string{"a", "c"}},
		{[]string{"a", "c"}, []string{"a", "c"}},
		{[]string{"two\nlines", "", strings.Repeat("x", 2000)}, []string{"two lines", strings.Repeat("x", 1021) + "…"}},
		{long, long[:250]},
		{slices.Repeat([]string{strings.Repeat("x", 1000)}, 100), slices.Repeat([]string{strings.Repeat("x", 1000)}, 65)},
		{nil, nil},
	} {
		w.apply(ran, feature.Outcome{Remaining: 5, Message: "5 left", Names: row.names})
		if got := w.in.Feature.Status.Tasks[0]; !slices.Equal(got.Names, row.kept) || got.Attempts != []int{1, 2, 2, 3, 4, 5, 6}[i] {
			t.Errorf("step %d: after %d attempts it names %d: %.80q", i, got.Attempts, len(got.Names), got.Names)
		}
		if again, err := feature.Parse(raw(t, w.in.Feature)); err != nil || !slices.Equal(again.Status.Tasks[0].Names, row.kept) {
			t.Errorf("step %d: read again: %v", i, err)
		}
	}
	w.apply(ran, feature.Outcome{Names: []string{"a"}})
	for name, names := range map[string][]string{"too many": long[:251], "two lines": {"a\nb"}, "nothing": {""}} {
		f := w.in.Feature
		f.Status.Tasks = slices.Clone(f.Status.Tasks)
		f.Status.Tasks[0].Names = names
		if err := f.Validate(); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	w.apply(ran, feature.Outcome{Done: true})
	if strings.Contains(string(raw(t, w.in.Feature)), `"names"`) {
		t.Error("what is done names something")
	}
}

// TestF21: waiting for uses comes first in every transition and need not be
// named; sweeps and holds are the author's.
func TestF21(t *testing.T) {
	for _, s := range []feature.State{feature.TurningOn, feature.TurningOff} {
		w := reach(t, s)
		tasks := w.in.Feature.Status.Tasks
		if tasks[0].Kind != feature.WaitForUses || tasks[0].Since.IsZero() {
			t.Errorf("%s begins with %+v", s, tasks[0])
		}
		if step := w.pass(); step.Run != nil {
			t.Errorf("%s ran %s before the wait was over", s, step.Run.Name)
		}
	}
	w := reach(t, feature.TurningOff)
	w.apply(w.in.Feature.Status.Tasks[0], feature.Outcome{Done: true}) // nobody can say that it is over
	if len(w.in.Feature.Status.Done) != 0 {
		t.Error("a wait was ended by somebody's word")
	}
	w.heard(false)
	w.apply(*w.pass().Run, feature.Outcome{Done: true})
	hold := w.pass().Run
	w.apply(*hold, feature.Outcome{Remaining: 2, Message: "2 volumes exist"})
	if w.state() != feature.TurningOff || hold.Kind != feature.Hold {
		t.Errorf("a hold with something left: %s", w.state())
	}
}
