// Package checkfeatures is the conformance suite of stores of features. Every
// implementation of [featurestore.Store] passes [Run].
//
//	func TestConformance(t *testing.T) {
//		checkfeatures.Run(t, func(t *testing.T) func() featurestore.Store { … })
//	}
//
// Other projects should not import this package: it changes without notice.
package checkfeatures

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Open returns a store that nobody else uses; each call of what it returns opens
// the same one anew, as another program would.
type Open func(t *testing.T) func() featurestore.Store

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, again func() featurestore.Store)
	}{
		{"nothing there is not found", suiteNotFound},
		{"what was created is read", suiteCreate},
		{"an update is the next generation", suiteUpdate},
		{"an update that was overtaken is a conflict", suiteConflict},
		{"the list is complete and sorted", suiteList},
		{"one of many writers wins each time", suiteRace},
		{"one of many creates", suiteCreateRace},
		{"what does not validate is not written", suiteInvalid},
		{"an ended context ends", suiteContext},
		{"reporters and people write their part only", suiteParts},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Feature is one that was never stored.
func Feature(t testing.TB, namespace, name string) feature.Feature {
	t.Helper()
	v, err := version.Parse("v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	d := feature.Definition{Name: name, About: "a feature of a test", Versions: []feature.Version{{Since: v, Stage: feature.Alpha, Default: feature.Off}}}
	f, err := feature.Announce(feature.Key{Namespace: namespace, Name: name}, d, v)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func create(t *testing.T, s featurestore.Store, namespace, name string) feature.Feature {
	t.Helper()
	f, err := s.Create(t.Context(), Feature(t, namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// same compares features by their bytes.
func same(t *testing.T, got, want feature.Feature) {
	t.Helper()
	a, err := got.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b, err := want.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

func seen(t *testing.T, f feature.Feature, who string) feature.Feature {
	t.Helper()
	f, err := feature.Report(f, feature.Use{Identity: who, Version: "v0.2.0", LastSeen: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func suiteNotFound(t *testing.T, again func() featurestore.Store) {
	s := again()
	if list, err := s.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("an empty store lists %v, %v", list, err)
	}
	create(t, s, "waybill", "RequireLantern")
	for _, k := range []feature.Key{{Namespace: "waybill", Name: "RequireWick"}, {Namespace: "example", Name: "RequireLantern"}, {Namespace: "waybill", Name: "Require"}} {
		if _, err := s.Get(t.Context(), k); !errors.Is(err, featurestore.ErrNotFound) {
			t.Errorf("%s: %v", k, err)
		}
	}
	f := Feature(t, "waybill", "RequireWick")
	f.Metadata.Generation = 1
	if _, err := s.Update(t.Context(), f); !errors.Is(err, featurestore.ErrNotFound) {
		t.Errorf("updating what is not there: %v", err)
	}
}

func suiteCreate(t *testing.T, again func() featurestore.Store) {
	f := create(t, again(), "waybill", "RequireLantern")
	if f.Metadata.Generation != 1 {
		t.Errorf("generation %d, want 1", f.Metadata.Generation)
	}
	got, err := again().Get(t.Context(), f.Key())
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, f)
	if _, err := again().Create(t.Context(), Feature(t, "waybill", "RequireLantern")); !errors.Is(err, featurestore.ErrConflict) {
		t.Errorf("creating it twice: %v", err)
	}
	if _, err := again().Create(t.Context(), f); err == nil || errors.Is(err, featurestore.ErrConflict) {
		t.Errorf("creating one that has a generation: %v", err)
	}
}

func suiteUpdate(t *testing.T, again func() featurestore.Store) {
	f := create(t, again(), "waybill", "RequireLantern")
	for want := 2; want < 14; want++ { // past where 10 sorts before 9
		after, err := again().Update(t.Context(), seen(t, f, "promoter"))
		if err != nil || after.Metadata.Generation != want {
			t.Fatalf("generation %d, %v; want %d", after.Metadata.Generation, err, want)
		}
		got, err := again().Get(t.Context(), f.Key())
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, after)
		f = got
	}
}

func suiteConflict(t *testing.T, again func() featurestore.Store) {
	old := create(t, again(), "waybill", "RequireLantern")
	now, err := again().Update(t.Context(), seen(t, old, "first"))
	if err != nil {
		t.Fatal(err)
	}
	ahead := seen(t, now, "ahead")
	ahead.Metadata.Generation += 3
	for name, f := range map[string]feature.Feature{"the one before": seen(t, old, "second"), "the same bytes as before": old, "one that is not there yet": ahead} {
		if _, err := again().Update(t.Context(), f); !errors.Is(err, featurestore.ErrConflict) {
			t.Errorf("writing over %s: %v", name, err)
		}
	}
	got, err := again().Get(t.Context(), old.Key())
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, now)
}

func suiteList(t *testing.T, again func() featurestore.Store) {
	s := again()
	for _, name := range []string{"RequireWick", "RequireLantern", "A1"} {
		create(t, s, "waybill", name)
	}
	f := create(t, s, "example", "RequireLantern")
	if _, err := s.Update(t.Context(), seen(t, f, "x")); err != nil {
		t.Fatal(err)
	}
	list, err := again().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Key().String())
	}
	want := []string{"example/RequireLantern", "waybill/A1", "waybill/RequireLantern", "waybill/RequireWick"}
	if len(names) != len(want) {
		t.Fatalf("listed %q, want %q", names, want)
	}
	for i := range want {
		if names[i] != want[i] {
			t.Errorf("listed %q, want %q", names, want)
		}
	}
	if list[0].Metadata.Generation != 2 {
		t.Errorf("the list has generation %d, want the newest", list[0].Metadata.Generation)
	}
}

// suiteRace has writers read, change and write at once: nothing that was told to
// be durable is lost, and nothing is there that was refused. A bucket that looks
// again after a write, and finds that of another over it, may say that it does
// not know.
func suiteRace(t *testing.T, again func() featurestore.Store) {
	k := create(t, again(), "waybill", "RequireLantern").Key()
	const writers, rounds = 4, 6
	var won, unclear sync.Map
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			s := again()
			for r := range rounds {
				who := string(rune('a'+w)) + string(rune('0'+r))
				f, err := s.Get(t.Context(), k)
				if err != nil {
					t.Errorf("reading: %v", err)
					return
				}
				_, err = s.Update(t.Context(), seen(t, f, who))
				var down *verdict.UnavailableError
				switch {
				case err == nil:
					won.Store(who, true)
				case errors.As(err, &down):
					unclear.Store(who, true)
				case !errors.Is(err, featurestore.ErrConflict):
					t.Errorf("writing: %v", err)
				}
			}
		})
	}
	all.Wait()
	f, err := again().Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, u := range f.Status.Uses {
		there[u.Identity] = true
		_, told := won.Load(u.Identity)
		_, open := unclear.Load(u.Identity)
		if !told && !open {
			t.Errorf("the write of %s was refused, and is there", u.Identity)
		}
	}
	won.Range(func(who, _ any) bool {
		if !there[who.(string)] {
			t.Errorf("the write of %s was told to be durable, and is lost", who)
		}
		return true
	})
	if len(there) == 0 || f.Metadata.Generation != len(there)+1 {
		t.Errorf("generation %d after %d writes", f.Metadata.Generation, len(there))
	}
}

func suiteCreateRace(t *testing.T, again func() featurestore.Store) {
	var all sync.WaitGroup
	answers := make([]error, 6)
	for i := range answers {
		all.Go(func() {
			_, answers[i] = again().Create(t.Context(), Feature(t, "waybill", "RequireLantern"))
		})
	}
	all.Wait()
	won := 0
	for _, err := range answers {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, featurestore.ErrConflict):
			t.Errorf("creating: %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d created it", won)
	}
}

func suiteInvalid(t *testing.T, again func() featurestore.Store) {
	bad := Feature(t, "waybill", "RequireLantern")
	bad.Status.State = feature.On
	if _, err := again().Create(t.Context(), bad); err == nil {
		t.Error("a state without a history was written")
	}
	f := create(t, again(), "waybill", "RequireLantern")
	worse := f
	worse.Status.State = feature.On
	if _, err := again().Update(t.Context(), worse); err == nil {
		t.Error("a state without a history was written over another")
	}
	got, err := again().Get(t.Context(), f.Key())
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, f)
}

func suiteContext(t *testing.T, again func() featurestore.Store) {
	s := again()
	f := create(t, s, "waybill", "RequireLantern")
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.Get(ended, f.Key()); err == nil || errors.Is(err, featurestore.ErrNotFound) {
		t.Errorf("reading: %v", err)
	}
	if _, err := s.List(ended); err == nil {
		t.Error("listing: no error")
	}
	if _, err := s.Update(ended, seen(t, f, "x")); err == nil || errors.Is(err, featurestore.ErrConflict) || errors.Is(err, featurestore.ErrNotFound) {
		t.Errorf("writing: %v", err)
	}
}

func suiteParts(t *testing.T, again func() featurestore.Store) {
	f := create(t, again(), "waybill", "RequireLantern")
	reporters, people := featurestore.ForReporters(again()), featurestore.ForPeople(again())
	f, err := reporters.Update(t.Context(), seen(t, f, "promoter"))
	if err != nil {
		t.Fatal(err)
	}
	wish := f
	wish.Spec.PrepareFor = "v0.1.0"
	if _, err := reporters.Update(t.Context(), wish); err == nil {
		t.Error("a reporter wrote a wish")
	}
	if _, err := people.Update(t.Context(), seen(t, f, "laptop")); err == nil {
		t.Error("people wrote a use")
	}
	if f, err = people.Update(t.Context(), wish); err != nil {
		t.Fatal(err)
	}
	stale := f
	stale.Metadata.Generation--
	if _, err := people.Update(t.Context(), stale); !errors.Is(err, featurestore.ErrConflict) {
		t.Errorf("writing over the generation before: %v", err)
	}
	for _, s := range []featurestore.Store{reporters, people} {
		if _, err := s.Create(t.Context(), Feature(t, "waybill", "RequireWick")); err == nil {
			t.Error("somebody else than a reconciler announced a feature")
		}
	}
}
