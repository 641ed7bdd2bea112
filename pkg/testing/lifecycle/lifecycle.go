// Package lifecycle takes every feature of a registry through its life: on,
// used, and off again.
//
//	func TestLifecycle(t *testing.T) {
//		lifecycle.Lifecycle(t, registry, map[feature.Key]lifecycle.Fixture{…})
//	}
//
// A feature without a fixture fails: who adds one to the registry says here how
// it is used. The real reconciler runs over a real store; only the clock and
// the reports of those who use the feature are the test's.
//
// Other projects should not import this package: it changes without notice.
package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/testing/checkfeatures"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Fixture is how a feature is used, in a world that is its own.
type Fixture struct {
	Deeds reconcile.Deeds
	// Use does what people do with the feature while it is turned on, so that its
	// tasks can be done and something of it exists.
	Use func(ctx context.Context) error
	// Remove is what people do themselves when it is turned off and a task holds;
	// nil if nothing holds.
	Remove func(ctx context.Context) error
	// Snapshot is the world of the feature as bytes: required of one that claims
	// to leave everything as it was.
	Snapshot func(ctx context.Context) ([]byte, error)
}

// Lifecycle walks the registry. Every feature is walked at the newest version
// that knows it.
func Lifecycle(t *testing.T, r feature.Registry, fixtures map[feature.Key]Fixture) {
	for _, k := range r.Keys() {
		t.Run(k.String(), func(t *testing.T) {
			fixture, has := fixtures[k]
			if !has {
				t.Fatalf("feature %s has no fixture: say how it is used, so that its way back is tested", k)
			}
			s := checkfeatures.Store(t)
			if err := Walk(t.Context(), s, r, k, fixture); err != nil {
				t.Error(err)
			}
		})
	}
	for k := range fixtures {
		if !slices.Contains(r.Keys(), k) {
			t.Errorf("a fixture is for %s, which is no feature", k)
		}
	}
}

// user is the one who uses the feature.
const user = "lifecycle"

// passes bounds how many passes a transition may take.
const passes = 40

// every is the time between two of its runs.
const every = time.Minute

// life is one walk.
type life struct {
	key     feature.Key
	fixture Fixture
	store   featurestore.Store
	config  reconcile.Config
	now     time.Time
	number  int // of the last transition that was signed
}

// Walk turns one feature on, uses it and turns it off, in a store that is
// empty. It answers what is wrong with the way that it went.
func Walk(ctx context.Context, s featurestore.Store, r feature.Registry, k feature.Key, fixture Fixture) error {
	d, known := r.Definition(k)
	if !known {
		return fmt.Errorf("feature %s is not in the registry", k)
	}
	if d.Pristine != (fixture.Snapshot != nil) {
		return fmt.Errorf("feature %s: it claims to leave everything as it was: %t; and brings a snapshot: %t", k, d.Pristine, fixture.Snapshot != nil)
	}
	if fixture.Use == nil {
		return fmt.Errorf("feature %s: its fixture does not use it", k)
	}
	alone, err := feature.NewRegistry(feature.Namespace{Name: k.Namespace, Features: []feature.Definition{d}})
	if err != nil {
		return err
	}
	l := &life{key: k, fixture: fixture, store: s, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	l.config = reconcile.Config{
		Store: s, Registry: alone, Deeds: map[feature.Key]reconcile.Deeds{k: fixture.Deeds}, Signer: l,
		Expect: map[string]reconcile.Expect{k.Namespace: {Reporters: []reconcile.Reporter{{Identity: user, Every: every}}}},
		Self:   reconcile.Self{Identity: user, Version: newest(d)}, Clock: func() time.Time { return l.now },
	}
	return l.walk(ctx)
}

// newest is the newest version that knows the feature.
func newest(d feature.Definition) (v version.Version) {
	for _, candidate := range d.Versions {
		if !candidate.Removed {
			v = candidate.Since
		}
	}
	return v
}

func (l *life) walk(ctx context.Context) error {
	before, err := l.snapshot(ctx)
	if err != nil {
		return err
	}
	if err := l.turn(ctx, feature.Off, nil); err != nil {
		return err
	}
	if err := l.turn(ctx, feature.On, l.fixture.Use); err != nil {
		return fmt.Errorf("turning on: %w", err)
	}
	if err := l.turn(ctx, feature.Off, l.fixture.Remove); err != nil {
		return fmt.Errorf("turning off: %w", err)
	}
	f, err := l.store.Get(ctx, l.key)
	if err != nil {
		return err
	}
	if c := f.Condition(feature.Dangling); c.Status != "False" {
		return fmt.Errorf("it is Off, and %d things still refer to it: %v (%s)", c.Count, c.Sample, c.Status)
	}
	if l.number != 4 {
		return fmt.Errorf("on and off made %d transitions, want 4", l.number)
	}
	after, err := l.snapshot(ctx)
	if err != nil {
		return err
	}
	if !bytes.Equal(before, after) {
		return errors.New("it claims to leave everything as it was, and the world is another one now")
	}
	return nil
}

func (l *life) snapshot(ctx context.Context) ([]byte, error) {
	if l.fixture.Snapshot == nil {
		return nil, nil
	}
	return l.fixture.Snapshot(ctx)
}

// turn makes passes until the feature is in a state. People do their part once,
// while uses are waited for.
func (l *life) turn(ctx context.Context, want feature.State, people func(context.Context) error) error {
	l.config.Wishes.Wanted = map[feature.Key]feature.Wanted{l.key: {Desired: want}}
	var last string
	for range passes {
		r, err := reconcile.New(l.config)
		if err != nil {
			return err
		}
		done, err := r.Once(ctx)
		if err != nil {
			return err
		}
		f := done[0].Feature
		tasks := f.Status.Tasks
		if f.Status.State == want && len(tasks) == 0 && done[0].Did == "" {
			return nil
		}
		if len(tasks) == 0 {
			continue
		}
		last = tasks[0].Name + ": " + tasks[0].Message
		if tasks[0].Kind != feature.WaitForUses {
			continue
		}
		if people != nil {
			if err := people(ctx); err != nil {
				return err
			}
			people = nil
		}
		if err := l.report(ctx, f, want == feature.On); err != nil {
			return err
		}
	}
	return fmt.Errorf("it is not %s after %d passes; %s", want, passes, last)
}

// report is what the user of the feature says, and time goes by.
func (l *life) report(ctx context.Context, f feature.Feature, value bool) error {
	f, err := feature.Report(f, feature.Use{Identity: user, Version: l.config.Self.Version.String(), Checked: true, Value: value, LastSeen: l.now})
	if err != nil {
		return err
	}
	l.now = l.now.Add(2 * every)
	_, err = featurestore.ForReporters(l.store).Update(ctx, f)
	return err
}

// Ready implements [reconcile.Signer].
func (l *life) Ready(context.Context) error { return nil }

// Sign implements [reconcile.Signer]: what is signed must be a statement, and the
// next one.
func (l *life) Sign(_ context.Context, name string, s intoto.Statement) (string, error) {
	p, err := featuretransition.Parse(s)
	if err != nil {
		return "", err
	}
	if p.Number != l.number+1 {
		return "", fmt.Errorf("transition %d is signed after %d", p.Number, l.number)
	}
	l.number = p.Number
	return name, nil
}
