package lifecycle_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/testing/checkfeatures"
	"github.com/waybill-release/waybill/pkg/testing/lifecycle"
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

// shelf is the world of a feature: names of things that exist.
type shelf struct{ things []string }

func (s *shelf) Count(context.Context, reconcile.Work) (reconcile.Found, error) {
	return reconcile.Found{Count: len(s.things), Sample: s.things}, nil
}

// Sweep removes one thing in each pass.
func (s *shelf) Sweep(context.Context, reconcile.Work) (feature.Outcome, error) {
	if len(s.things) > 0 {
		s.things = s.things[1:]
	}
	return feature.Outcome{Done: len(s.things) == 0, Remaining: len(s.things)}, nil
}

func (s *shelf) use(context.Context) error {
	s.things = append(s.things, "one", "two")
	return nil
}

func (s *shelf) remove(context.Context) error {
	s.things = nil
	return nil
}

func (s *shelf) snapshot(context.Context) ([]byte, error) {
	return []byte(strings.Join(s.things, "\n")), nil
}

func nothing(context.Context) error { return nil }

// story is a feature with its fixture.
type story struct {
	feature.Definition
	lifecycle.Fixture
}

// stories are the four of the document that asks for features like these.
func stories(t testing.TB) map[string]story {
	since := []feature.Version{{Since: v(t, "v0.2.0"), Stage: feature.Alpha, Default: feature.Off}}
	field, kind := &shelf{}, &shelf{}
	return map[string]story{
		"a field on an object": {
			feature.Definition{Name: "TraceNotes", About: "objects carry a note", Versions: since, Pristine: true, Keys: []string{"example.test/note"},
				OffTasks: []feature.Job{{Kind: feature.Sweep, Name: "StripNotes"}}},
			lifecycle.Fixture{Use: field.use, Snapshot: field.snapshot, Deeds: reconcile.Deeds{Sweeps: map[string]reconcile.Sweep{"StripNotes": field}, Dangling: field}},
		},
		"stateless, in one program": {
			feature.Definition{Name: "PrettyPage", About: "a page for people", Versions: since, Dynamic: true, Pristine: true},
			lifecycle.Fixture{Use: nothing, Snapshot: func(context.Context) ([]byte, error) { return nil, nil }, Deeds: reconcile.Deeds{Dangling: reconcile.Nothing{}}},
		},
		"more configuration on the command line": {
			feature.Definition{Name: "OwnKeys", About: "keys of one's own", Versions: since, RequiresFlags: []string{"--key"}},
			lifecycle.Fixture{Use: nothing, Deeds: reconcile.Deeds{Dangling: reconcile.Nothing{}}},
		},
		"held open": {
			feature.Definition{Name: "NewKind", About: "things of a new kind", Versions: since,
				OffTasks: []feature.Job{{Kind: feature.Hold, Name: "WhileInUse"}}},
			lifecycle.Fixture{Use: kind.use, Remove: kind.remove, Deeds: reconcile.Deeds{Holds: map[string]reconcile.Counter{"WhileInUse": kind}, Dangling: kind}},
		},
	}
}

func registry(t testing.TB) (feature.Registry, map[feature.Key]lifecycle.Fixture) {
	ns, fixtures := feature.Namespace{Name: "example"}, map[feature.Key]lifecycle.Fixture{}
	for _, s := range stories(t) {
		ns.Features = append(ns.Features, s.Definition)
		fixtures[feature.Key{Namespace: "example", Name: s.Name}] = s.Fixture
	}
	r, err := feature.NewRegistry(ns)
	if err != nil {
		t.Fatal(err)
	}
	return r, fixtures
}

// TestF10: every feature goes on, is used, and goes off again.
func TestF10(t *testing.T) {
	r, fixtures := registry(t)
	lifecycle.Lifecycle(t, r, fixtures)
}

// TestNoFixture: a feature without a fixture fails the test that walks it.
func TestNoFixture(t *testing.T) {
	if os.Getenv("FEATURETEST_INNER") != "" {
		r, fixtures := registry(t)
		delete(fixtures, feature.Key{Namespace: "example", Name: "NewKind"})
		lifecycle.Lifecycle(t, r, fixtures)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoFixture$", "-test.v")
	cmd.Env = append(os.Environ(), "FEATURETEST_INNER=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "feature example/NewKind has no fixture") || !strings.Contains(string(out), "PASS: TestNoFixture/example/PrettyPage") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestWalkFinds: each row breaks one thing about a feature that walks well.
func TestWalkFinds(t *testing.T) {
	for name, row := range map[string]struct {
		story  string
		change func(*story)
		says   string
	}{
		"nothing":                       {"a field on an object", func(*story) {}, ""},
		"what is used stays":            {"a field on an object", func(s *story) { s.OffTasks = nil }, "2 things still refer to it"},
		"it never finishes":             {"a field on an object", func(s *story) { s.Deeds.Sweeps["StripNotes"] = never{} }, "is not Off after"},
		"it leaves something else":      {"a field on an object", func(s *story) { s.Snapshot = growing() }, "the world is another one"},
		"a claim without a snapshot":    {"a field on an object", func(s *story) { s.Snapshot = nil }, "brings a snapshot: false"},
		"nobody uses it":                {"a field on an object", func(s *story) { s.Use = nil }, "does not use it"},
		"nobody removes what holds it":  {"held open", func(s *story) { s.Remove = nil }, "held by 2: one, two"},
		"nobody can do one of its jobs": {"held open", func(s *story) { s.Deeds.Holds = nil }, "is not implemented"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stories(t)[row.story]
			row.change(&s)
			err := walk(t, s)
			if row.says == "" && err != nil || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
				t.Errorf("%v, want %q", err, row.says)
			}
		})
	}
}

func walk(t *testing.T, s story) error {
	t.Helper()
	r, err := feature.NewRegistry(feature.Namespace{Name: "example", Features: []feature.Definition{s.Definition}})
	if err != nil {
		t.Fatal(err)
	}
	st := checkfeatures.Store(t)
	return lifecycle.Walk(t.Context(), st, r, feature.Key{Namespace: "example", Name: s.Name}, s.Fixture)
}

type never struct{}

func (never) Sweep(context.Context, reconcile.Work) (feature.Outcome, error) {
	return feature.Outcome{Remaining: 1}, nil
}

func growing() func(context.Context) ([]byte, error) {
	n := 0
	return func(context.Context) ([]byte, error) { n++; return make([]byte, n), nil }
}

// TestF24: the four stories: a field is stripped, what is stateless may be
// dynamic, what needs flags may not, and what would destroy something is held
// open until people remove it themselves.
func TestF24(t *testing.T) {
	all := stories(t)
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if err := walk(t, all[name]); err != nil {
				t.Error(err)
			}
		})
	}
	flags := all["more configuration on the command line"].Definition
	flags.Dynamic = true
	if _, err := feature.NewRegistry(feature.Namespace{Name: "example", Features: []feature.Definition{flags}}); err == nil {
		t.Error("what needs flags is dynamic")
	}
	held := all["held open"]
	kept := &shelf{}
	held.Deeds = reconcile.Deeds{Holds: map[string]reconcile.Counter{"WhileInUse": kept}, Dangling: kept}
	held.Use, held.Remove = kept.use, nil
	if err := walk(t, held); err == nil || len(kept.things) != 2 {
		t.Errorf("%v; left are %q: a hold removes nothing", err, kept.things)
	}
}
