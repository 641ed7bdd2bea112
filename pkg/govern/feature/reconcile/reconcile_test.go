package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

var key = feature.Key{Namespace: "waybill", Name: "RequireLantern"}

func v(t testing.TB, text string) version.Version {
	t.Helper()
	out, err := version.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// images is a small registry: images, and which of them have a lantern. It is
// the world that the tasks of the tests look at and change.
type images struct {
	mu      sync.Mutex // owns the rest
	lantern map[string]bool
	err     error // what it answers, if it is down
	ran     int
}

func newImages(names ...string) *images {
	w := &images{lantern: map[string]bool{}}
	for _, n := range names {
		w.lantern[n] = false
	}
	return w
}

func (w *images) set(name string, has bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lantern[name] = has
}

// those lists the images that have a lantern, or that have none.
func (w *images) those(has bool) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for n, is := range w.lantern {
		if is == has {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// Sweep audits: every image in the scope must have a lantern.
func (w *images) Sweep(_ context.Context, work reconcile.Work) (feature.Outcome, error) {
	var missing []string
	for _, n := range w.those(false) {
		if feature.Covers(work.Scope, n) {
			missing = append(missing, n)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran++
	if w.err != nil {
		return feature.Outcome{}, w.err
	}
	if len(missing) > 0 {
		return feature.Outcome{Remaining: len(missing), Message: "no lantern: " + strings.Join(missing, ", ")}, nil
	}
	return feature.Outcome{Done: true, Message: fmt.Sprintf("%d images have one", len(w.lantern))}, nil
}

// Count counts the lanterns.
func (w *images) Count(context.Context, reconcile.Work) (reconcile.Found, error) {
	lit := w.those(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	return reconcile.Found{Count: len(lit), Sample: lit}, w.err
}

// strip takes the lanterns away, one in each pass.
type strip struct{ *images }

func (s strip) Sweep(context.Context, reconcile.Work) (feature.Outcome, error) {
	lit := s.those(true)
	if len(lit) > 0 {
		s.set(lit[0], false)
		lit = lit[1:]
	}
	return feature.Outcome{Done: len(lit) == 0, Remaining: len(lit), Message: fmt.Sprintf("%d left", len(lit))}, nil
}

// statements keeps what was signed, by name. Another statement of a name that
// was used is what must never be.
type statements struct {
	mu   sync.Mutex // owns the rest
	said map[string]string
	down error
	not  error // why nobody could sign at all
	t    testing.TB
}

func (s *statements) Ready(context.Context) error { return s.not }

func (s *statements) Sign(_ context.Context, name string, st intoto.Statement) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return "", s.down
	}
	if before, signed := s.said[name]; signed && before != string(st.Raw()) {
		s.t.Errorf("%s was signed twice, and says\n%s\nand\n%s", name, before, st.Raw())
	}
	s.said[name] = string(st.Raw())
	return name + ".sigstore.json", nil
}

// follow reads the statements of a feature in their order, each of which begins
// where the one before ended.
func (s *statements) follow(k feature.Key) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ways, state := []string{}, "Off"
	for n := 1; n <= len(s.said); n++ {
		raw, there := s.said[fmt.Sprintf("%s/%d", k, n)]
		if !there {
			s.t.Errorf("no statement about transition %d of %d", n, len(s.said))
			return ways
		}
		st, err := intoto.Parse([]byte(raw))
		if err != nil {
			s.t.Fatal(err)
		}
		p, err := featuretransition.Parse(st)
		if err != nil {
			s.t.Fatal(err)
		}
		if p.From != state {
			s.t.Errorf("transition %d is from %s, the one before was to %s", n, p.From, state)
		}
		state = p.To
		ways = append(ways, p.To)
	}
	return ways
}

// bench is everything a reconciler needs.
type bench struct {
	t      testing.TB
	store  featurestore.Store
	images *images
	signed *statements
	config reconcile.Config
	now    time.Time
}

func newBench(t testing.TB) *bench {
	t.Helper()
	s := checkfeatures.Store(t)
	b := &bench{t: t, store: s, images: newImages("r.example.test/a", "r.example.test/b", "r.example.test/c"), signed: &statements{t: t, said: map[string]string{}}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	r, err := feature.NewRegistry(feature.Namespace{Name: "waybill", Features: []feature.Definition{{
		Name: key.Name, About: "every image has a lantern", Versions: []feature.Version{{Since: v(t, "v0.2.0"), Stage: feature.Alpha, Default: feature.Off}},
		OnTasks: []feature.Job{{Kind: feature.Sweep, Name: "Audit"}}, OffTasks: []feature.Job{{Kind: feature.Sweep, Name: "Strip"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	b.config = reconcile.Config{
		Store: s, Registry: r, Signer: b.signed, Clock: func() time.Time { return b.now },
		Deeds:  map[feature.Key]reconcile.Deeds{key: {Sweeps: map[string]reconcile.Sweep{"Audit": b.images, "Strip": strip{b.images}}, Dangling: b.images}},
		Expect: map[string]reconcile.Expect{"waybill": {Reporters: []reconcile.Reporter{{Identity: "promoter", Every: 30 * time.Minute}}}},
		Wishes: reconcile.Wishes{Wanted: map[feature.Key]feature.Wanted{}},
		Self:   reconcile.Self{Identity: "gate-1", Version: v(t, "v0.2.0")},
	}
	return b
}

func (b *bench) want(s feature.State) { b.config.Wishes.Wanted[key] = feature.Wanted{Desired: s} }

func (b *bench) reconciler() *reconcile.Reconciler {
	b.t.Helper()
	r, err := reconcile.New(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// once makes a pass and returns what it did to the feature.
func (b *bench) once() reconcile.Pass {
	b.t.Helper()
	passes, err := b.reconciler().Once(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return passes[0]
}

// heard has the expected reporter report, and the window pass.
func (b *bench) heard(value bool) {
	b.t.Helper()
	f := b.get()
	f, err := feature.Report(f, feature.Use{Identity: "promoter", Version: "v0.2.0", Checked: true, Value: value, LastSeen: b.now})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.store.Update(b.t.Context(), f); err != nil {
		b.t.Fatal(err)
	}
	b.now = b.now.Add(time.Hour)
}

func (b *bench) get() feature.Feature {
	b.t.Helper()
	f, err := b.store.Get(b.t.Context(), key)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func (b *bench) expect(s feature.State, did string) {
	b.t.Helper()
	p := b.once()
	if p.After != s || !strings.Contains(p.Did, did) || (did == "") != (p.Did == "") {
		b.t.Errorf("it is %s and did %q; want %s, %q", p.After, p.Did, s, did)
	}
}

// TestF06: on, used, and back off, with nothing left of it.
func TestF06(t *testing.T) {
	b := newBench(t)
	b.expect(feature.Off, "announced")
	b.expect(feature.Off, "")
	idle := b.get().Metadata.Generation
	if b.expect(feature.Off, ""); b.get().Metadata.Generation != idle {
		t.Error("a pass with nothing to do writes")
	}
	b.want(feature.On)
	b.expect(feature.TurningOn, "Off to TurningOn")
	b.heard(true)
	b.expect(feature.TurningOn, "task WaitForUses is done")
	b.expect(feature.TurningOn, "")
	task := b.get().Status.Tasks[0]
	if task.Message != "no lantern: r.example.test/a, r.example.test/b, r.example.test/c" || task.Remaining != 3 {
		t.Errorf("the audit says %+v", task)
	}
	for _, n := range b.images.those(false) {
		b.images.set(n, true)
	}
	b.expect(feature.On, "TurningOn to On")
	b.want(feature.Off)
	b.expect(feature.TurningOff, "On to TurningOff")
	b.heard(false)
	b.expect(feature.TurningOff, "task WaitForUses is done")
	b.expect(feature.TurningOff, "")
	b.expect(feature.TurningOff, "")
	b.expect(feature.Off, "TurningOff to Off")
	b.expect(feature.Off, "")
	if f := b.get(); len(b.images.those(true)) != 0 || f.Condition(feature.Dangling).Status != "False" || f.Condition(feature.SafeToUpgrade).Status != "True" {
		t.Errorf("left: %q; %+v", b.images.those(true), f.Status.Conditions)
	}
	if got := b.signed.follow(key); !slices.Equal(got, []string{"TurningOn", "On", "TurningOff", "Off"}) {
		t.Errorf("signed: %q", got)
	}
}

// TestF07: it is Off and something still refers to it, which is said with names;
// and nothing of the sort is said while it is not Off.
func TestF07(t *testing.T) {
	b := newBench(t)
	b.once()
	b.images.set("r.example.test/b", true)
	b.once()
	if c := b.get().Condition(feature.Dangling); c.Status != "True" || c.Count != 1 || !slices.Equal(c.Sample, []string{"r.example.test/b"}) {
		t.Errorf("%+v", c)
	}
	b.images.err = errors.New("the registry is down")
	if _, err := b.reconciler().Once(t.Context()); err == nil {
		t.Error("nobody could look, and nothing was said")
	}
	if c := b.get().Condition(feature.Dangling); c.Status != "Unknown" || !strings.Contains(c.Message, "the registry is down") {
		t.Errorf("nobody could look: %+v", c)
	}
	b.images.err = nil
	b.want(feature.On)
	b.once()
	if c := b.get().Condition(feature.Dangling); c.Status != "Unknown" {
		t.Errorf("it is TurningOn: %+v", c)
	}
}

// TestFailingTask: what fails is in the object, is told, and is
// tried again; other features go on.
func TestFailingTask(t *testing.T) {
	b := newBench(t)
	b.want(feature.On)
	b.once()
	b.once()
	b.heard(true)
	b.once()
	b.images.err = errors.New("the registry is down")
	_, err := b.reconciler().Once(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the registry is down") {
		t.Errorf("%v", err)
	}
	if got := b.get().Status; got.Tasks[0].Message != "the registry is down" || got.State != feature.TurningOn {
		t.Errorf("%+v", got.Tasks)
	}
	b.images.err = nil
	b.once()
	if got := b.get().Status.Tasks[0]; got.Attempts != 2 || got.Remaining != 3 {
		t.Errorf("%+v", got)
	}
}

// TestSignerIsDown: without a signer a transition is begun and goes no
// further; when there is one, the same words are signed that would have been.
func TestSignerIsDown(t *testing.T) {
	b := newBench(t)
	b.once()
	b.want(feature.On)
	b.signed.down = errors.New("no signature")
	for range 3 {
		if _, err := b.reconciler().Once(t.Context()); err == nil || !strings.Contains(err.Error(), "no signature") {
			t.Fatalf("%v", err)
		}
	}
	if s := b.get().Status; s.State != feature.TurningOn || s.Number != 1 || s.History[0].Statement != "" {
		t.Fatalf("%+v", s)
	}
	b.want(feature.Off) // also what is wanted now waits for it
	b.now = b.now.Add(5 * time.Hour)
	b.signed.down = nil
	b.expect(feature.TurningOff, "TurningOn to TurningOff")
	if got := b.signed.follow(key); !slices.Equal(got, []string{"TurningOn", "TurningOff"}) {
		t.Errorf("signed: %q", got)
	}
	if at := b.get().Status.History[0].Transition.At; !at.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("it says it was at %s", at)
	}
}

// TestNobodySigns: where it is known beforehand that nobody signs, nothing is
// written, whatever there is to do, and it is said once.
func TestNobodySigns(t *testing.T) {
	b := newBench(t)
	b.want(feature.On)
	other := feature.Definition{Name: "RequireOther", About: "every image has another", Versions: []feature.Version{{Since: v(t, "v0.2.0"), Stage: feature.Alpha, Default: feature.On}}}
	mine, _ := b.config.Registry.Definition(key)
	var err error
	if b.config.Registry, err = feature.NewRegistry(feature.Namespace{Name: "waybill", Features: []feature.Definition{mine, other}}); err != nil {
		t.Fatal(err)
	}
	b.config.Deeds[feature.Key{Namespace: "waybill", Name: other.Name}] = reconcile.Deeds{Dangling: reconcile.Nothing{}}
	live := new(asked)
	b.config.Self.Live = live
	for _, there := range []int{0, 2} { // before and after they were announced
		b.signed.not = errors.New("the token is another's")
		passes, err := b.reconciler().Once(t.Context())
		if err == nil || strings.Count(err.Error(), "the token is another's") != 1 || len(passes) > 0 || *live > 0 {
			t.Errorf("%d passes, asked %d times who lives: %v", len(passes), *live, err)
		}
		if all, err := b.store.List(t.Context()); err != nil || len(all) != there || there > 0 && all[0].Metadata.Generation != 1 {
			t.Errorf("%d features: %v", len(all), err)
		}
		b.signed.not = nil
		if there == 0 {
			b.once()
		}
		*live = 0
	}
	b.expect(feature.TurningOn, "Off to TurningOn")
}

// asked counts how often somebody asks who lives.
type asked int

func (a *asked) Identities(context.Context) ([]string, error) { *a++; return nil, nil }

// TestTaskTakesLong: reports that come while a task runs do not undo what it did.
func TestTaskTakesLong(t *testing.T) {
	b := newBench(t)
	b.want(feature.On)
	b.once()
	b.once()
	b.heard(true)
	b.once()
	for _, n := range b.images.those(false) {
		b.images.set(n, true)
	}
	deeds := b.config.Deeds[key]
	deeds.Sweeps["Audit"] = sweepFunc(func(ctx context.Context, w reconcile.Work) (feature.Outcome, error) {
		b.heard(true)
		return b.images.Sweep(ctx, w)
	})
	b.expect(feature.On, "TurningOn to On")
}

type sweepFunc func(context.Context, reconcile.Work) (feature.Outcome, error)

func (f sweepFunc) Sweep(ctx context.Context, w reconcile.Work) (feature.Outcome, error) {
	return f(ctx, w)
}

// TestNewRefuses: a configuration with which a feature could never be switched.
func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*reconcile.Config){
		"no signer":                   func(c *reconcile.Config) { c.Signer = nil },
		"no store":                    func(c *reconcile.Config) { c.Store = nil },
		"no identity":                 func(c *reconcile.Config) { c.Self.Identity = "" },
		"no features":                 func(c *reconcile.Config) { c.Registry = feature.Registry{} },
		"nobody is expected":          func(c *reconcile.Config) { c.Expect = nil },
		"a reporter without interval": func(c *reconcile.Config) { c.Expect["waybill"].Reporters[0].Every = 0 },
		"a window that is too short": func(c *reconcile.Config) {
			c.Expect["waybill"] = reconcile.Expect{Reporters: c.Expect["waybill"].Reporters, Window: time.Minute}
		},
		"a task that nobody can do":   func(c *reconcile.Config) { delete(c.Deeds[key].Sweeps, "Audit") },
		"nothing counts what dangles": func(c *reconcile.Config) { c.Deeds[key] = reconcile.Deeds{Sweeps: c.Deeds[key].Sweeps} },
		"a wish for what is unknown": func(c *reconcile.Config) {
			c.Wishes.Wanted[feature.Key{Namespace: "waybill", Name: "X"}] = feature.Wanted{}
		},
		"dynamic, and not by itself": func(c *reconcile.Config) { c.Wishes.Dynamic = []feature.Key{key} },
	} {
		b := newBench(t)
		change(&b.config)
		if _, err := reconcile.New(b.config); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
