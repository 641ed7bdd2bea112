package componentbase_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/component-base/featuregate"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/testing/checkfeatures"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

const lantern, wick = featuregate.Feature("RequireLantern"), featuregate.Feature("RequireWick")

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func v(t *testing.T, text string) version.Version {
	t.Helper()
	out, err := version.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ordinary adds two features as any program of Kubernetes does, without knowing
// which gate it has.
func ordinary(t *testing.T, to featuregate.MutableVersionedFeatureGate) {
	t.Helper()
	if err := to.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		lantern: {Default: false, PreRelease: featuregate.Alpha}, wick: {Default: true, PreRelease: featuregate.Beta},
	}); err != nil {
		t.Fatal(err)
	}
}

func gate(t *testing.T) *componentbase.Gate {
	t.Helper()
	g := componentbase.New(featuregate.NewFeatureGate())
	ordinary(t, g)
	return g
}

// shelf is a store with both features announced.
func shelf(t *testing.T) featurestore.Store {
	t.Helper()
	s := checkfeatures.Store(t)
	for _, name := range []featuregate.Feature{lantern, wick} {
		if _, err := s.Create(t.Context(), checkfeatures.Feature(t, "waybill", string(name))); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func reporter(t *testing.T, s featurestore.Store) componentbase.Reporter {
	return componentbase.Reporter{Store: s, Namespace: "waybill", Identity: "promoter", Version: v(t, "v0.2.0"), Clock: noon}
}

func uses(t *testing.T, s featurestore.Store, name featuregate.Feature) []feature.Use {
	t.Helper()
	f, err := s.Get(t.Context(), feature.Key{Namespace: "waybill", Name: string(name)})
	if err != nil {
		t.Fatal(err)
	}
	return f.Status.Uses
}

// TestF14: the gate takes the place of the ordinary one, needs no store when it
// is made, and reports whether it was asked and what it answered, also of what
// was asked before it had a store.
func TestF14(t *testing.T) {
	var dropIn featuregate.MutableVersionedFeatureGate = componentbase.New(featuregate.NewFeatureGate())
	ordinary(t, dropIn)
	if err := dropIn.Set("RequireLantern=true"); err != nil {
		t.Fatal(err)
	}
	if !dropIn.Enabled(lantern) {
		t.Error("what a flag sets is not what is answered")
	}
	g := dropIn.(*componentbase.Gate)
	if err := g.Report(t.Context()); err == nil {
		t.Error("it reported to nobody")
	}
	s := shelf(t)
	if err := g.InitReporter(reporter(t, s)); err != nil {
		t.Fatal(err)
	}
	if err := g.InitReporter(reporter(t, s)); err == nil {
		t.Error("a second reporter is taken")
	}
	if err := g.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := feature.Use{Identity: "promoter", Version: "v0.2.0", Checked: true, Value: true, LastSeen: noon()}
	if got := uses(t, s, lantern); len(got) != 1 || got[0] != want {
		t.Errorf("of what was asked: %+v", got)
	}
	want.Checked = false
	if got := uses(t, s, wick); len(got) != 1 || got[0] != want {
		t.Errorf("of what nobody asked: %+v", got)
	}
}

// TestF04: a program with an ordinary gate changes one line, where it is made;
// the copies it makes to try things out report to nobody, and what it asks of
// them is not a use.
func TestF04(t *testing.T) {
	g := gate(t)
	for name, copied := range map[string]featuregate.MutableVersionedFeatureGate{"a copy": g.DeepCopy(), "a copy without what was set": g.DeepCopyAndReset()} {
		if err := copied.Set("RequireLantern=true"); err != nil || !copied.Enabled(lantern) {
			t.Errorf("%s: %v", name, err)
		}
		if err := copied.(*componentbase.Gate).Report(t.Context()); err == nil {
			t.Errorf("%s reports", name)
		}
	}
	if g.Enabled(lantern) {
		t.Error("trying something out changed the gate")
	}
	if len(g.KnownFeatures()) < 2 || g.EmulationVersion() == nil {
		t.Error("something is missing of the gate")
	}
	defer func() {
		if recover() == nil {
			t.Error("a feature that nobody added has an answer")
		}
	}()
	g.Enabled("RequireNothing")
}

// TestF05: what a page of flags and a metric need: every feature, its stage, its
// value, whether it was asked for; and looking does not ask.
func TestF05(t *testing.T) {
	g := gate(t)
	g.Enabled(wick)
	want := []componentbase.Line{{Name: "RequireLantern", Stage: "alpha"}, {Name: "RequireWick", Stage: "beta", Enabled: true, Checked: true}}
	for range 2 {
		got := g.Lines()
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%+v", got)
		}
	}
}

// TestBothValuesAreReported: a program that found the old value and then the new
// one says both, and the old one once.
func TestBothValuesAreReported(t *testing.T) {
	g, s := gate(t), shelf(t)
	g.Enabled(lantern)
	if err := g.Set("RequireLantern=true"); err != nil {
		t.Fatal(err)
	}
	g.Enabled(lantern)
	if err := g.InitReporter(reporter(t, s)); err != nil {
		t.Fatal(err)
	}
	if err := g.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := uses(t, s, lantern); len(got) != 2 || got[0].Value || !got[1].Value || !got[0].Checked {
		t.Errorf("%+v", got)
	}
	f, err := s.Get(t.Context(), feature.Key{Namespace: "waybill", Name: string(lantern)})
	if err != nil {
		t.Fatal(err)
	}
	f.Status.Uses = nil // as when a window is opened
	if _, err := s.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := g.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := uses(t, s, lantern); len(got) != 1 || !got[0].Value {
		t.Errorf("the old value was said twice: %+v", got)
	}
}

// TestManyReportAtOnce: programs that report at the same time lose nothing, and
// what they ask meanwhile is answered.
func TestManyReportAtOnce(t *testing.T) {
	s := shelf(t)
	var all sync.WaitGroup
	for i := range 6 {
		g := gate(t)
		r := reporter(t, s)
		r.Identity += string(rune('a' + i))
		if err := g.InitReporter(r); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 100 {
				g.Enabled(lantern)
			}
		})
		all.Go(func() {
			if err := g.Report(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := uses(t, s, wick); len(got) != 6 {
		t.Errorf("%d of 6 are there", len(got))
	}
}

// hanging is a store that answers nothing until it is let go.
type hanging struct {
	featurestore.Store
	asked chan struct{}
}

func (h hanging) Get(ctx context.Context, k feature.Key) (feature.Feature, error) {
	h.asked <- struct{}{}
	<-ctx.Done()
	return feature.Feature{}, &verdict.UnavailableError{Place: k.String(), Op: "reading", Err: ctx.Err()}
}

// TestEnabledNeverWaits: while a store hangs, the gate answers.
func TestEnabledNeverWaits(t *testing.T) {
	g := gate(t)
	h := hanging{Store: shelf(t), asked: make(chan struct{})}
	if err := g.InitReporter(reporter(t, h)); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	reported := make(chan error)
	go func() { reported <- g.Report(ctx) }()
	<-h.asked
	if !g.Enabled(wick) || g.Enabled(lantern) || len(g.Lines()) != 2 {
		t.Error("another answer while a store hangs")
	}
	end()
	go func() { <-h.asked }()
	var down *verdict.UnavailableError
	if err := <-reported; !errors.As(err, &down) || !strings.Contains(err.Error(), "RequireWick") {
		t.Errorf("%v", err)
	}
}

// TestUnannounced: features that nobody switches are passed over.
func TestUnannounced(t *testing.T) {
	s := checkfeatures.Store(t)
	g := gate(t)
	if err := g.InitReporter(reporter(t, s)); err != nil {
		t.Fatal(err)
	}
	if err := g.Report(t.Context()); err != nil {
		t.Error(err)
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("a reporter announced %v, %v", list, err)
	}
}

// TestF03: a program that leaves a feature to the store has what is wanted there,
// as often as that changes; a flag that is set stays.
func TestF03(t *testing.T) {
	g, s := gate(t), shelf(t)
	want := func(name featuregate.Feature, state feature.State) {
		t.Helper()
		f, err := s.Get(t.Context(), feature.Key{Namespace: "waybill", Name: string(name)})
		if err != nil {
			t.Fatal(err)
		}
		f.Spec.Desired = state
		if _, err := s.Update(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if err := g.Follow(t.Context(), lantern, wick); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Set("RequireWick=true"); err != nil {
		t.Fatal(err)
	}
	if err := g.InitReporter(reporter(t, s)); err != nil {
		t.Fatal(err)
	}
	want(lantern, feature.On)
	if !g.Enabled(lantern) {
		t.Error("the store wants it On")
	}
	want(lantern, feature.Off)
	if g.Enabled(lantern) {
		t.Error("the store wants it Off again")
	}
	want(wick, feature.Off)
	if !g.Enabled(wick) {
		t.Error("the store outdid a flag")
	}
}

// TestAdd: one table makes the gates, version by version.
func TestAdd(t *testing.T) {
	r, err := feature.NewRegistry(feature.Namespace{Name: "waybill", Features: []feature.Definition{{
		Name: "RequireLantern", About: "every image has a lantern",
		Versions: []feature.Version{
			{Since: v(t, "v0.2.0"), Stage: feature.Alpha, Default: feature.Off},
			{Since: v(t, "v0.4.0"), Stage: feature.Beta, Default: feature.On},
			{Since: v(t, "v0.6.0"), Stage: feature.GA, Default: feature.On},
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for minor, want := range map[int]componentbase.Line{3: {Stage: "alpha"}, 4: {Stage: "beta", Enabled: true}, 6: {Stage: "ga", Enabled: true}} {
		g, err := componentbase.At(0, minor)
		if err != nil {
			t.Fatal(err)
		}
		if err := componentbase.Add(g, r, "waybill"); err != nil {
			t.Fatal(err)
		}
		want.Name = "RequireLantern"
		if got := g.Lines(); len(got) != 1 || got[0].Stage != want.Stage || got[0].Enabled != want.Enabled {
			t.Errorf("v0.%d: %+v, want %+v", minor, got, want)
		}
		if err := componentbase.Add(g, r, "example"); err == nil {
			t.Error("a namespace of nobody is added")
		}
	}
}
