package feature_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature"
)

// TestMode: the state drives the gate, and nothing in a store goes below the
// floor of the signed policy.
func TestMode(t *testing.T) {
	for state, want := range map[feature.State]feature.Mode{
		feature.Off: feature.ModeOff, feature.TurningOn: feature.ModeWarn, feature.On: feature.ModeRequire, feature.TurningOff: feature.ModeWarn,
		"": feature.ModeRequire, "on": feature.ModeRequire,
	} {
		for floor, least := range map[feature.Mode]int{feature.ModeOff: 0, feature.ModeWarn: 1, feature.ModeRequire: 2, "": 2, "none": 2} {
			order := []feature.Mode{feature.ModeOff, feature.ModeWarn, feature.ModeRequire}
			if got, want := feature.ModeOf(state, floor), order[max(least, slices.Index(order, want))]; got != want {
				t.Errorf("%q with floor %q: %s, want %s", state, floor, got, want)
			}
		}
	}
	on := reach(t, feature.Off)
	if got := on.in.Feature.Mode("r.example.test/a"); got != feature.ModeOff {
		t.Errorf("Off: %s", got)
	}
	on.in.Wanted = &feature.Wanted{Desired: feature.On, Scope: feature.Scope{Repositories: []string{"r.example.test/a"}}}
	on.finish()
	for repository, want := range map[string]feature.Mode{"r.example.test/a": feature.ModeRequire, "r.example.test/b": feature.ModeOff} {
		if got := on.in.Feature.Mode(repository); got != want {
			t.Errorf("On at r.example.test/a, at %s: %s", repository, got)
		}
	}
	if got := (feature.Feature{}).Mode("r.example.test/a"); got != feature.ModeRequire {
		t.Errorf("the zero feature: %s", got)
	}
}

// TestF13: no configuration is passed: what needs flags is not dynamic.
func TestF13(t *testing.T) {
	d := definition(t)
	d.RequiresFlags = []string{"--kms-key"}
	if _, err := feature.NewRegistry(feature.Namespace{Name: "waybill", Features: []feature.Definition{d}}); err != nil {
		t.Errorf("flags alone: %v", err)
	}
	d.Dynamic = true
	if _, err := feature.NewRegistry(feature.Namespace{Name: "waybill", Features: []feature.Definition{d}}); err == nil || !strings.Contains(err.Error(), "--kms-key") {
		t.Errorf("flags and dynamic: %v", err)
	}
}

// TestF08: an author names tasks for four ways in one place; what is promised
// and not brought is refused there.
func TestF08(t *testing.T) {
	register := func(change func(*feature.Definition)) error {
		d := definition(t)
		change(&d)
		r, err := feature.NewRegistry(feature.Namespace{Name: "waybill", Features: []feature.Definition{d}})
		if err == nil {
			if got, ok := r.Definition(feature.Key{Namespace: "waybill", Name: d.Name}); !ok || got.Name != d.Name {
				t.Errorf("%+v is not there", d)
			}
		}
		return err
	}
	if err := register(func(*feature.Definition) {}); err != nil {
		t.Fatal(err)
	}
	if err := register(func(d *feature.Definition) {
		*d = feature.Definition{Name: d.Name, About: d.About, Versions: d.Versions[:1]}
	}); err != nil {
		t.Errorf("a feature without any task: %v", err)
	}
	for name, change := range map[string]func(*feature.Definition){
		"no upgrade tasks, and the form changes":   func(d *feature.Definition) { d.UpgradeTasks = nil },
		"no downgrade tasks, and the form changes": func(d *feature.Definition) { d.DowngradeTasks = nil },
		"no version":                func(d *feature.Definition) { d.Versions = nil },
		"versions in another order": func(d *feature.Definition) { slices.Reverse(d.Versions[:2]) },
		"no stage":                  func(d *feature.Definition) { d.Versions[0].Stage = "" },
		"no default":                func(d *feature.Definition) { d.Versions[0].Default = "" },
		"a default on the way":      func(d *feature.Definition) { d.Versions[0].Default = feature.TurningOn },
		"nothing about it":          func(d *feature.Definition) { d.About = "" },
		"a name in lower case":      func(d *feature.Definition) { d.Name = "lantern" },
		"a wait of its own":         func(d *feature.Definition) { d.OnTasks[0].Kind = feature.WaitForUses },
		"a task of another kind":    func(d *feature.Definition) { d.OffTasks[0].Kind = "Delete" },
	} {
		if register(change) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestF11: third parties register features in a namespace of their own, and in
// nobody else's; what the store may decide the administrator says.
func TestF11(t *testing.T) {
	core := feature.Namespace{Name: feature.CoreNamespace, Features: []feature.Definition{definition(t)}}
	other := feature.Namespace{Name: "example", Features: []feature.Definition{definition(t)}}
	r, err := feature.NewRegistry(core, other)
	if err != nil || len(r.Keys()) != 2 || r.Keys()[0].String() != "example/RequireLantern" {
		t.Fatalf("%v, %v", r.Keys(), err)
	}
	for name, list := range map[string][]feature.Namespace{
		"somebody else's namespace":        {core, {Name: feature.CoreNamespace, Features: other.Features}},
		"a name with a slash":              {{Name: "a/b", Features: other.Features}},
		"an empty namespace":               {{Name: "example"}},
		"names that differ in letter case": {{Name: "example", Features: []feature.Definition{definition(t), {Name: "Requirelantern", About: "x", Versions: definition(t).Versions[:1]}}}},
	} {
		if _, err := feature.NewRegistry(list...); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, row := range []struct {
		definition, admin bool
		want              feature.State
	}{{true, true, feature.TurningOn}, {true, false, feature.Off}, {false, true, feature.Off}, {false, false, feature.Off}} {
		w := newWorld(t)
		w.in.Definition.Dynamic, w.in.MayBeDynamic = row.definition, row.admin
		w.in.Feature.Spec.Desired = feature.On // somebody wrote it into the store
		w.pass()
		if w.state() != row.want {
			t.Errorf("dynamic by its definition %t, by the administrator %t: %s", row.definition, row.admin, w.state())
		}
		if row.want == feature.Off && w.in.Feature.Spec.Desired != "" {
			t.Error("a wish that counts for nothing was left in the object")
		}
	}
	w := newWorld(t)
	w.in.Definition.Dynamic, w.in.MayBeDynamic = true, true
	w.in.Feature.Spec.Desired = feature.On
	w.want(feature.Off) // what is configured centrally counts before the store
	if w.pass(); w.state() != feature.Off {
		t.Errorf("the store outdid the configuration: %s", w.state())
	}
}

// TestF19: what the program knows is announced; what it does not know is kept
// for three minor versions, marked after that, and back with who knows it.
func TestF19(t *testing.T) {
	d := definition(t)
	if _, err := feature.Announce(gateKey, d, v(t, "v0.1.9")); err == nil {
		t.Error("a version announces what it does not know")
	}
	f, err := feature.Announce(gateKey, d, v(t, "v0.5.0"))
	if err != nil || f.Status.State != feature.Off || f.Status.Default != feature.On {
		t.Fatalf("%+v, %v", f.Status, err)
	}
	for running, forgotten := range map[string]bool{"v0.6.0": false, "v0.8.3": false, "v0.9.0": true, "v0.2.0": false, "v0.1.0": true, "v1.0.0": false, "v1.2.0": false, "v1.3.0": true} {
		after, changed := feature.Forget(f, v(t, running))
		if changed != forgotten || after.Status.Forgotten != forgotten || after.Validate() != nil {
			t.Errorf("%s forgets it: %t, want %t", running, changed, forgotten)
		}
		if forgotten {
			if _, again := feature.Forget(after, v(t, running)); again {
				t.Errorf("%s forgets it twice", running)
			}
		}
	}
	w := newWorld(t)
	w.in.Feature.Status.Forgotten = true
	if w.pass(); w.in.Feature.Status.Forgotten {
		t.Error("it is known again, and still forgotten")
	}
}

// TestF18: the same names give the same leader; one more takes its share and
// nothing else changes hands.
func TestF18(t *testing.T) {
	ids := []string{"gate-1", "gate-2", "gate-3"}
	share := map[string]int{}
	for i := range 300 {
		k := feature.Key{Namespace: "waybill", Name: fmt.Sprintf("Feature%d", i)}
		leader := feature.Leader(k, ids)
		share[leader]++
		if feature.Leader(k, []string{"gate-3", "gate-1", "", "gate-2", "gate-1"}) != leader {
			t.Fatal("the order of the names counts")
		}
		if with := feature.Leader(k, append(slices.Clone(ids), "gate-4")); with != leader && with != "gate-4" {
			t.Fatalf("%s went from %s to %s", k, leader, with)
		}
	}
	for _, who := range ids {
		if share[who] < 50 {
			t.Errorf("%s leads %d of 300", who, share[who])
		}
	}
	if feature.Leader(gateKey, nil) != "" {
		t.Error("nobody leads, and somebody does")
	}
}

// TestF02: an upgrade brings the data into the new form while the feature stays
// On, and a downgrade is prepared by the newer program.
func TestF02(t *testing.T) {
	w := newWorld(t)
	w.want(feature.On)
	w.finish()
	w.in.Running = v(t, "v0.4.1")
	w.pass()
	s := w.in.Feature.Status
	if w.state() != feature.On || !slices.Equal(kinds(w.in.Feature), []string{"WaitForUses", "Rewrite"}) || s.Schema != 1 || w.in.Feature.Mode("r.example.test/a") != feature.ModeRequire {
		t.Fatalf("%s, %q, form %d", w.state(), kinds(w.in.Feature), s.Schema)
	}
	old := w.in
	var err error
	for _, who := range w.in.Expected { // an old program would write the old form
		if w.in.Feature, err = feature.Report(w.in.Feature, feature.Use{Identity: who, Version: "v0.3.0", Value: true, LastSeen: w.in.Now}); err != nil {
			t.Fatal(err)
		}
	}
	w.in.Now = w.in.Now.Add(window)
	if w.pass(); len(w.in.Feature.Status.Done) != 0 || !strings.Contains(w.in.Feature.Status.Tasks[0].Message, "too old") {
		t.Fatalf("%+v", w.in.Feature.Status.Tasks)
	}
	w.in.Feature = old.Feature
	w.finish()
	if s := w.in.Feature.Status; s.Schema != 2 || s.Version != "v0.4.1" || s.Moving != nil || w.state() != feature.On {
		t.Fatalf("%+v", s)
	}
	w.in.Feature.Spec.PrepareFor = "v0.3.0"
	w.finish()
	if s := w.in.Feature.Status; s.Schema != 1 || w.state() != feature.On {
		t.Fatalf("form %d after it was prepared for v0.3", s.Schema)
	}
	w.in.Running = v(t, "v0.3.0")
	w.finish()
	if w.in.Feature.Status.Schema != 1 || w.in.Feature.Spec.PrepareFor != "" {
		t.Errorf("%+v", w.in.Feature)
	}
}

// TestOffWhileMoving: a feature can be turned off while its data are on their
// way, and they arrive.
func TestOffWhileMoving(t *testing.T) {
	w := newWorld(t)
	w.want(feature.On)
	w.finish()
	w.in.Running = v(t, "v0.4.0")
	w.pass()
	w.want(feature.Off)
	if w.pass(); w.state() != feature.TurningOff || !slices.Equal(kinds(w.in.Feature), []string{"WaitForUses", "Rewrite", "Strip", "Held"}) {
		t.Fatalf("%s, %q", w.state(), kinds(w.in.Feature))
	}
	if w.finish(); w.state() != feature.Off || w.in.Feature.Status.Schema != 2 {
		t.Errorf("%s, form %d", w.state(), w.in.Feature.Status.Schema)
	}
}

// TestF09: whether another version can be started, and if not, why not.
func TestF09(t *testing.T) {
	clean := feature.Condition{Type: feature.Dangling, Status: "False"}
	at := func(s feature.State, running string) *world {
		w := newWorld(t)
		w.in.Running = v(t, running)
		w.in.Feature = feature.WithConditions(w.in.Feature, clean)
		if s != "" {
			w.want(goal(s))
		}
		w.pass()
		if s.IsSteady() {
			w.finish()
		}
		return w
	}
	for _, row := range []struct {
		name    string
		state   feature.State
		running string
		to      string
		change  func(*world)
		unsafe  string // "" is safe
		notes   int
	}{
		{"off, nothing dangles, up", feature.Off, "v0.2.0", "v0.4.0", nil, "", 0},
		{"on, up over another form", feature.On, "v0.3.0", "v0.4.0", nil, "", 1},
		{"by default, up to another default", "", "v0.2.0", "v0.4.0", nil, "", 1},
		{"on, up within one form", feature.On, "v0.2.0", "v0.3.0", nil, "", 0},
		{"on, down to the older form", feature.On, "v0.4.0", "v0.3.0", nil, "--prepare-for v0.3.0", 0},
		{"on, down within one form", feature.On, "v0.5.0", "v0.4.0", nil, "", 0},
		{"on, down to where nobody knows it", feature.On, "v0.2.0", "v0.1.0", nil, "turn it off first", 0},
		{"off, down to where nobody knows it", feature.Off, "v0.2.0", "v0.1.0", nil, "", 1},
		{"on, up to where it is gone", feature.On, "v0.8.0", "v0.9.0", nil, "turn it off first", 0},
		{"off and dangling, up to where it is gone", feature.Off, "v0.8.0", "v0.9.0", func(w *world) {
			w.in.Feature = feature.WithConditions(w.in.Feature, feature.Condition{Type: feature.Dangling, Status: "True", Count: 3})
		}, "with 3 objects", 0},
		{"off and nobody looked, up to where it is gone", feature.Off, "v0.8.0", "v0.9.0", func(w *world) { w.in.Feature.Status.Conditions = nil }, "unknown what refers to it", 0},
		{"turning on", feature.TurningOn, "v0.2.0", "v0.3.0", nil, "the feature is TurningOn", 0},
		{"turning off", feature.TurningOff, "v0.2.0", "v0.3.0", nil, "the feature is TurningOff", 0},
		{"moving", feature.On, "v0.3.0", "v0.5.0", func(w *world) { w.in.Running = v(t, "v0.4.0"); w.pass() }, "being converted", 1},
		{"not signed yet", feature.On, "v0.2.0", "v0.3.0", func(w *world) { w.in.Feature.Status.History[0].Statement = "" }, "not signed", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := at(row.state, row.running)
			if row.state == feature.TurningOff {
				w = reach(t, feature.TurningOff)
			}
			if row.state == feature.TurningOn {
				w.pass()
			}
			if w.state() != row.state && row.state != "" {
				t.Fatalf("it is %s", w.state())
			}
			if row.change != nil {
				row.change(w)
			}
			p := feature.Check(w.in.Feature, &w.in.Definition, w.in.Running, v(t, row.to))
			if p.IsSafe() != (row.unsafe == "") || row.unsafe != "" && !strings.Contains(strings.Join(p.Unsafe, "; "), row.unsafe) || len(p.Notes) != row.notes {
				t.Errorf("unsafe: %q, notes: %q", p.Unsafe, p.Notes)
			}
		})
	}
	if (feature.Preflight{}).IsSafe() {
		t.Error("a preflight of nothing is safe")
	}
	if p := feature.Check(reach(t, feature.On).in.Feature, nil, v(t, "v0.7.0"), v(t, "v0.8.0")); p.IsSafe() {
		t.Error("On, and the program does not know it: safe")
	}
	w := at(feature.On, "v0.4.0")
	for _, c := range feature.SafeConditions(w.in.Feature, &w.in.Definition, w.in.Running) {
		if want := map[string]string{feature.SafeToUpgrade: "True", feature.SafeToDowngrade: "False"}[c.Type]; c.Status != want {
			t.Errorf("%s is %s: %s", c.Type, c.Status, c.Message)
		}
	}
}

// TestSelect: what a scope covers of some repositories, and which of its parts
// cover none.
func TestSelect(t *testing.T) {
	all := []string{"r.example.test/prod/b", "r.example.test/prod/a", "r.example.test/test", "r.example.test/prod/a"}
	for _, row := range []struct {
		scope            feature.Scope
		covered, without []string
	}{
		{feature.Scope{Everything: true}, []string{"r.example.test/prod/a", "r.example.test/prod/b", "r.example.test/test"}, nil},
		{feature.Scope{Repositories: []string{"r.example.test/prod"}}, []string{"r.example.test/prod/a", "r.example.test/prod/b"}, nil},
		{feature.Scope{Repositories: []string{"r.example.test/pro", "r.example.test/test"}}, []string{"r.example.test/test"}, []string{"r.example.test/pro"}},
		{feature.Scope{Repositories: []string{"r.example.test/prod/a/x"}}, nil, []string{"r.example.test/prod/a/x"}},
		{feature.Scope{}, nil, nil},
	} {
		if covered, without := feature.Select(row.scope, all); !slices.Equal(covered, row.covered) || !slices.Equal(without, row.without) {
			t.Errorf("%+v covers %q, and nothing by %q", row.scope, covered, without)
		}
	}
}

// TestOnByDefault: on a new site a feature that is on by default is announced
// Off, and turned on as any other: it warns while it is waited for and audited.
func TestOnByDefault(t *testing.T) {
	w := newWorld(t)
	w.in.Definition.Versions = slices.Clone(w.in.Definition.Versions)
	w.in.Definition.Versions[0].Default = feature.On
	f, err := feature.Announce(gateKey, w.in.Definition, w.in.Running)
	if err != nil || f.Status.Default != feature.On || f.Status.State != feature.Off {
		t.Fatalf("it is %s, by default %s: %v", f.Status.State, f.Status.Default, err)
	}
	w.in.Feature = f
	w.pass()
	if got := kinds(w.in.Feature); w.state() != feature.TurningOn || w.in.Feature.Mode("r.example.test/a") != feature.ModeWarn || !slices.Equal(got, []string{"WaitForUses", "Audit"}) {
		t.Errorf("it is %s, with %q before it", w.state(), got)
	}
	w.heard(true)
	w.apply(*w.pass().Run, feature.Outcome{Done: true})
	if w.state() != feature.On {
		t.Errorf("it is %s when all is done", w.state())
	}
}

// TestF12: a part of the repositories can go first.
func TestF12(t *testing.T) {
	w := newWorld(t)
	w.in.Wanted = &feature.Wanted{Desired: feature.On, Scope: feature.Scope{Repositories: []string{"r.example.test/canary"}}}
	w.finish()
	if a, b := w.in.Feature.Mode("r.example.test/canary"), w.in.Feature.Mode("r.example.test/rest"); a != feature.ModeRequire || b != feature.ModeOff {
		t.Errorf("the canary %s, the rest %s", a, b)
	}
}

func goal(s feature.State) feature.State {
	if s == feature.On || s == feature.TurningOn {
		return feature.On
	}
	return feature.Off
}
