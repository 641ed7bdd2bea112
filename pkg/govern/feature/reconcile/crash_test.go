package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
)

var errCrash = errors.New("the program was killed")

// mortal counts what a program does to the world, and kills it at one deed:
// before it, or after it and before anybody hears of it.
type mortal struct {
	featurestore.Store
	signer reconcile.Signer
	left   int
	after  bool
	dead   bool
}

// strike answers whether the deed is done, and whether its answer is heard.
func (m *mortal) strike(deed func() error) error {
	if m.dead {
		return errCrash // a dead program does nothing more
	}
	if m.left--; m.left != 0 {
		return deed()
	}
	m.dead = true
	if m.after {
		_ = deed() // done, and nobody hears of it
	}
	return errCrash
}

func (m *mortal) Create(ctx context.Context, f feature.Feature) (out feature.Feature, err error) {
	err = m.strike(func() error {
		var wrong error
		out, wrong = m.Store.Create(ctx, f)
		return wrong
	})
	return out, err
}

func (m *mortal) Update(ctx context.Context, f feature.Feature) (out feature.Feature, err error) {
	err = m.strike(func() error {
		var wrong error
		out, wrong = m.Store.Update(ctx, f)
		return wrong
	})
	return out, err
}

func (m *mortal) Get(ctx context.Context, k feature.Key) (feature.Feature, error) {
	if m.dead {
		return feature.Feature{}, errCrash
	}
	return m.Store.Get(ctx, k)
}

func (m *mortal) Ready(ctx context.Context) error { return m.signer.Ready(ctx) }

func (m *mortal) Sign(ctx context.Context, name string, s intoto.Statement) (where string, err error) {
	err = m.strike(func() error {
		var wrong error
		where, wrong = m.signer.Sign(ctx, name, s)
		return wrong
	})
	return where, err
}

// walk brings the feature on and off again, as the world goes on around it. pass
// makes one pass, whatever becomes of it.
func walk(b *bench, pass func()) error {
	pass()
	for _, way := range []struct {
		want feature.State
		set  bool
	}{{feature.On, true}, {feature.Off, false}} {
		b.want(way.want)
		for n := 0; ; n++ {
			pass()
			f, err := b.store.Get(b.t.Context(), key)
			if errors.Is(err, featurestore.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if _, _, missing := f.Unsigned(); f.Status.State == way.want && !missing {
				break
			}
			if n > 30 {
				return fmt.Errorf("it stays %s: %+v", f.Status.State, f.Status.Tasks)
			}
			if len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Kind == feature.WaitForUses {
				b.heard(way.set)
			}
			if f.Status.State == feature.TurningOn {
				for _, name := range b.images.those(false) {
					b.images.set(name, true)
				}
			}
		}
	}
	return nil
}

// TestCrash kills the program at each of its writes and signatures, before and
// after, and lets another one go on. The feature goes the same way; each step
// of it is signed once, with one set of words.
func TestCrash(t *testing.T) {
	unharmed := 1000
	deeds := unharmed - crash(t, unharmed, false).left
	if deeds < 20 {
		t.Fatalf("there are only %d deeds", deeds)
	}
	for at := 1; at <= deeds; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("at deed %d, after it %t", at, after), func(t *testing.T) {
				t.Parallel() // most of it waits for the disk
				if !crash(t, at, after).dead {
					t.Error("it came through unharmed")
				}
			})
		}
	}
}

// crash walks with a program that is killed at a deed, and with another one from
// then on.
func crash(t *testing.T, at int, after bool) *mortal {
	b := newBench(t)
	m := &mortal{Store: b.store, signer: b.signed, left: at, after: after}
	err := walk(b, func() {
		c := b.config
		if !m.dead {
			c.Store, c.Signer = m, m
		}
		r, err := reconcile.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = r.Once(t.Context()); err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.signed.follow(key); !slices.Equal(got, []string{"TurningOn", "On", "TurningOff", "Off"}) {
		t.Errorf("signed %q", got)
	}
	return m
}

// TestTwoReconcilers: several that all believe to be the leader get the feature
// there together, in a store with one object and in one with many.
func TestTwoReconcilers(t *testing.T) {
	b := newBench(t)
	several := func() {
		var all sync.WaitGroup
		for i := range 3 {
			c := b.config
			c.Self.Identity = fmt.Sprintf("gate-%d", i)
			now := b.now.Add(time.Duration(i-1) * time.Second) // clocks differ
			c.Clock = func() time.Time { return now }
			r, err := reconcile.New(c)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				if _, err := r.Once(t.Context()); err != nil {
					t.Errorf("%s: %v", c.Self.Identity, err)
				}
			})
		}
		all.Wait()
	}
	if err := walk(b, several); err != nil {
		t.Fatal(err)
	}
	if got := b.signed.follow(key); !slices.Equal(got, []string{"TurningOn", "On", "TurningOff", "Off"}) {
		t.Errorf("signed %q", got)
	}
}

// TestClockOfTheReconciler: a reconciler whose clock is wrong by days ends no
// window without reports, and does not hold the others up for ever.
func TestClockOfTheReconciler(t *testing.T) {
	b := newBench(t)
	b.want(feature.On)
	b.once()
	b.once()
	right := b.now
	b.now = right.Add(72 * time.Hour) // the window is long over, by this clock
	if p := b.once(); p.After != feature.TurningOn || len(b.get().Status.Done) != 0 {
		t.Fatalf("%+v", p)
	}
	b.now = right // the window was opened in the future, by this one
	b.once()
	if since := b.get().Status.Tasks[0].Since; !since.Equal(right) {
		t.Errorf("the window is open since %s, want %s", since, right)
	}
	b.heard(true)
	if b.once(); len(b.get().Status.Done) != 1 {
		t.Errorf("%+v", b.get().Status.Tasks)
	}
}

type live []string

func (l live) Identities(context.Context) ([]string, error) {
	if l == nil {
		return nil, errors.New("nobody can tell")
	}
	return l, nil
}

// TestLeader: of those who see each other one acts; who sees nobody acts, too.
func TestLeader(t *testing.T) {
	for _, row := range []struct {
		ids  live
		acts int
	}{{live{"gate-0", "gate-1", "gate-2"}, 1}, {live{}, 3}, {nil, 3}} {
		b := newBench(t)
		acted := 0
		for i := range 3 {
			b.config.Self.Identity, b.config.Self.Live = fmt.Sprintf("gate-%d", i), row.ids
			if p := b.once(); p.Did == "announced" || p.Did == "" || p.Did == "another program wrote it first" {
				acted++
			} else if p.Did != "left to "+feature.Leader(key, row.ids) {
				t.Errorf("%q", p.Did)
			}
		}
		if acted != row.acts {
			t.Errorf("%q: %d acted, want %d", row.ids, acted, row.acts)
		}
	}
}

// TestStoreIsDown: nothing is decided, and nothing said to be.
func TestStoreIsDown(t *testing.T) {
	b := newBench(t)
	b.once()
	b.config.Store = &mortal{Store: b.store, dead: true}
	passes, err := b.reconciler().Once(t.Context())
	if !errors.Is(err, errCrash) || len(passes) != 1 || passes[0].Did != "" || passes[0].Err == nil {
		t.Errorf("%+v, %v", passes, err)
	}
}

// TestStrangers: what the program does not know is kept, not switched, and stands
// in the way of an upgrade while it is in use.
func TestStrangers(t *testing.T) {
	b := newBench(t)
	b.want(feature.On)
	for b.get0() != feature.On {
		b.once()
		if f, err := b.store.Get(t.Context(), key); err == nil && len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Kind == feature.WaitForUses {
			b.heard(true)
		}
		for _, n := range b.images.those(false) {
			b.images.set(n, true)
		}
	}
	other, err := feature.NewRegistry(feature.Namespace{Name: "waybill", Features: []feature.Definition{{
		Name: "RequireWick", About: "every image has a wick", Versions: []feature.Version{{Since: v(t, "v0.2.0"), Stage: feature.Beta, Default: feature.Off}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	c := b.config
	c.Registry, c.Wishes = other, reconcile.Wishes{}
	c.Deeds = map[feature.Key]reconcile.Deeds{{Namespace: "waybill", Name: "RequireWick"}: {Dangling: reconcile.Nothing{}}}
	for _, row := range []struct {
		version   string
		forgotten bool
	}{{"v0.5.0", false}, {"v0.6.0", true}} {
		c.Self.Version = v(t, row.version)
		r, err := reconcile.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f := b.get(); f.Status.State != feature.On || f.Condition(feature.SafeToUpgrade).Status != "False" || f.Status.Forgotten != row.forgotten {
			t.Errorf("%s: %+v", row.version, f.Status)
		}
		list, err := c.Store.List(t.Context())
		if err != nil || len(list) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		for i, f := range list {
			var known *feature.Definition
			if d, ok := c.Registry.Definition(f.Key()); ok {
				known = &d
			}
			if p := feature.Check(f, known, c.Self.Version, v(t, "v0.7.0")); p.IsSafe() != (i == 1) {
				t.Errorf("%+v", p)
			}
		}
	}
}

// get0 is the state, "" while there is none.
func (b *bench) get0() feature.State {
	f, err := b.store.Get(b.t.Context(), key)
	if err != nil {
		return ""
	}
	return f.Status.State
}
