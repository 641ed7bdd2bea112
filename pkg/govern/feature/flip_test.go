package feature_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/govern/feature"
)

// TestFlip: at every point of a transition, somebody wants the opposite. It goes
// to the opposite transition with fresh tasks, and never straight back.
func TestFlip(t *testing.T) {
	for _, way := range []struct {
		from  feature.State
		want  feature.State
		to    feature.State
		tasks []string
	}{
		{feature.TurningOn, feature.Off, feature.TurningOff, []string{"WaitForUses", "Strip", "Held"}},
		{feature.TurningOff, feature.On, feature.TurningOn, []string{"WaitForUses", "Audit"}},
	} {
		for done := range 3 {
			w := reach(t, way.from)
			for i := range done {
				if i == 0 {
					w.heard(way.from == feature.TurningOn)
				} else if step := w.pass(); step.Run != nil {
					w.apply(*step.Run, feature.Outcome{Done: true})
				}
			}
			if w.state() != way.from {
				continue // it had ended by then
			}
			w.want(way.want)
			w.pass()
			s := w.in.Feature.Status
			if w.state() != way.to || !slices.Equal(kinds(w.in.Feature), way.tasks) || len(s.Done) != 0 || len(s.Uses) != 0 {
				t.Errorf("%s after %d tasks: %s, %q, done %v", way.from, done, w.state(), kinds(w.in.Feature), s.Done)
			}
			w.finish()
			if w.state() != way.want {
				t.Errorf("in the end it is %s", w.state())
			}
		}
	}
}

// TestEveryWayIsAWay drives features through thousands of random events, and
// holds every change of state against the ways that there are, the tasks that
// must lie between, and the reports that must be there.
func TestEveryWayIsAWay(t *testing.T) {
	for seed := range uint64(40) {
		dice := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t)
		seen := 0
		for range 120 {
			event(t, w, dice)
			for _, e := range w.in.Feature.Status.History {
				p := e.Transition
				if p.Number <= seen {
					continue
				}
				seen = p.Number
				if err := p.Validate(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if (p.To == featuretransition.On || p.To == featuretransition.Off) && p.From != p.To && !slices.Equal(p.Tasks[0].Reporters, w.in.Expected) {
					t.Fatalf("seed %d: it is %s, and heard was %q", seed, p.To, p.Tasks[0].Reporters)
				}
			}
		}
	}
}

// event is something that happens: the clock, a wish, a report, a pass, an
// outcome.
func event(t *testing.T, w *world, dice *rand.Rand) {
	t.Helper()
	switch dice.IntN(8) {
	case 0:
		w.want([]feature.State{feature.On, feature.Off, ""}[dice.IntN(3)])
	case 1:
		w.in.Wanted = &feature.Wanted{Desired: feature.On, Scope: feature.Scope{Repositories: []string{fmt.Sprintf("r.example.test/%c", 'a'+rune(dice.IntN(3)))}}}
	case 2:
		w.in.Now = w.in.Now.Add(time.Duration(dice.IntN(90)-10) * time.Minute)
	case 3:
		w.report(dice.IntN(6) > 0, w.in.Expected[dice.IntN(2)])
	case 4:
		goal := w.state() == feature.TurningOn || w.state() == feature.On
		w.report(goal, w.in.Expected...)
		w.in.Now = w.in.Now.Add(window)
	default:
		if step := w.pass(); step.Run != nil {
			w.apply(*step.Run, feature.Outcome{Done: dice.IntN(3) > 0, Remaining: dice.IntN(2), Message: "tried"})
		}
	}
}

// TestNextSaysTheSame: asked twice about the same object, the same is said, so a
// crash before the write loses nothing.
func TestNextSaysTheSame(t *testing.T) {
	for _, s := range []feature.State{feature.Off, feature.TurningOn, feature.On, feature.TurningOff} {
		for _, want := range []feature.State{feature.On, feature.Off} {
			w := reach(t, s)
			w.want(want)
			a, err := feature.Next(w.in)
			if err != nil {
				t.Fatal(err)
			}
			b, err := feature.Next(w.in)
			if err != nil {
				t.Fatal(err)
			}
			first, _ := a.Feature.Bytes()
			second, _ := b.Feature.Bytes()
			if string(first) != string(second) || a.Changed != b.Changed {
				t.Errorf("%s wants %s: two answers", s, want)
			}
		}
	}
}

// TestUnsignedFirst: while a statement is missing nothing else is done, not even
// what somebody wants by now.
func TestUnsignedFirst(t *testing.T) {
	w := newWorld(t)
	w.want(feature.On)
	step, err := feature.Next(w.in)
	if err != nil {
		t.Fatal(err)
	}
	w.keep(step)
	w.want(feature.Off)
	step, err = feature.Next(w.in)
	if err != nil || step.Sign == nil || step.Changed || step.Sign.Number != 1 || step.Sign.To != "TurningOn" {
		t.Fatalf("%+v, %v", step, err)
	}
	s, err := featuretransition.New(*step.Sign)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Subjects()[0]; got.Name != gateKey.String() {
		t.Errorf("the statement is about %s", got.Name)
	}
	if _, err := feature.Signed(w.in.Feature, 9, "x"); err == nil {
		t.Error("a transition that never was is signed")
	}
	w.in.Feature, err = feature.Signed(w.in.Feature, 1, "transitions/1.sigstore.json")
	if err != nil {
		t.Fatal(err)
	}
	if w.pass(); w.state() != feature.TurningOff {
		t.Errorf("it is %s", w.state())
	}
}

// TestScope: a narrower scope counts at once, a wider one after its tasks, while
// what was demanded stays demanded.
func TestScope(t *testing.T) {
	scope := func(list ...string) *feature.Wanted {
		return &feature.Wanted{Desired: feature.On, Scope: feature.Scope{Repositories: list}}
	}
	w := newWorld(t)
	w.in.Wanted = scope("r.example.test/a", "r.example.test/b")
	w.finish()
	modes := func(want ...feature.Mode) {
		t.Helper()
		for i, name := range []string{"r.example.test/a", "r.example.test/a/deep", "r.example.test/b", "r.example.test/c", "r.example.test/ab"} {
			if got := w.in.Feature.Mode(name); got != want[i] {
				t.Errorf("%s, %s: %s, want %s", w.state(), name, got, want[i])
			}
		}
	}
	modes("require", "require", "require", "off", "off")
	w.in.Wanted = scope("r.example.test/a")
	if w.pass(); w.state() != feature.On {
		t.Fatalf("narrower: %s", w.state())
	}
	modes("require", "require", "off", "off", "off")
	w.in.Wanted = scope("r.example.test/a", "r.example.test/c")
	if w.pass(); w.state() != feature.TurningOn {
		t.Fatalf("wider: %s", w.state())
	}
	modes("require", "require", "off", "warn", "off")
	w.in.Wanted = scope("r.example.test/a", "r.example.test/b", "r.example.test/c")
	if w.pass(); w.state() != feature.TurningOn || w.in.Feature.Status.Number != 5 {
		t.Fatalf("wider still: %s", w.state())
	}
	modes("require", "require", "warn", "warn", "off")
	w.finish()
	modes("require", "require", "require", "require", "off")
	w.want(feature.Off)
	w.pass()
	modes("warn", "warn", "warn", "warn", "off")
}
