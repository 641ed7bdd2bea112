package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// plain is a file with which a world of these tests is reconciled.
const plain = `apiVersion: waybill/v1
kind: Features
site: site
profile: profile.yaml
identity: reconciler-0
every: 1s
reporters:
- {identity: promoter, every: 1m}
- {identity: promoter, every: 1m, namespace: fleet}
desired:
  fleet/Drain: {state: "On", scope: [registry.example.test/prod]}
dynamic: [StatusPage]
`

// testWorld is a world whose tasks are counted.
type testWorld struct {
	config.World
	t      *testing.T
	config config.Config
	now    time.Time
	signed []string
	swept  int
}

func newTestWorld(t *testing.T) *testWorld {
	t.Helper()
	w := &testWorld{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.Registry, w.Version, w.Signer = theirs(t), known.Newest(), w
	w.Clock = func() time.Time { return w.now }
	w.Deeds = map[feature.Key]reconcile.Deeds{}
	for _, k := range w.Registry.Keys() {
		d, _ := w.Registry.Definition(k)
		deeds := reconcile.Deeds{Dangling: reconcile.Nothing{}, Sweeps: map[string]reconcile.Sweep{}, Holds: map[string]reconcile.Counter{}}
		for _, j := range d.Jobs() {
			deeds.Sweeps[j.Name], deeds.Holds[j.Name] = w, reconcile.Nothing{}
		}
		w.Deeds[k] = deeds
	}
	var err error
	if w.config, err = config.ParseConfig([]byte(plain), t.TempDir(), w.Registry); err != nil {
		t.Fatal(err)
	}
	w.Site = openSite(t)
	return w
}

func openSite(t *testing.T) featurestore.Site {
	t.Helper()
	dir := t.TempDir()
	if err := featurestore.MakeSite(dir); err != nil {
		t.Fatal(err)
	}
	s, err := featurestore.OpenSite(dir, openPart)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openPart(uri string) (featurestore.Place, error) {
	at, err := store.Open(uri, nil)
	if err != nil {
		return featurestore.Place{}, err
	}
	w, err := store.OpenWriter(uri)
	return featurestore.Place{Place: at, Writer: w}, err
}

// Ready implements [reconcile.Signer].
func (w *testWorld) Ready(context.Context) error { return nil }

// Sign implements [reconcile.Signer].
func (w *testWorld) Sign(_ context.Context, name string, _ intoto.Statement) (string, error) {
	w.signed = append(w.signed, name)
	return plan.BundleName(name), nil
}

// Sweep implements [reconcile.Sweep].
func (w *testWorld) Sweep(context.Context, reconcile.Work) (feature.Outcome, error) {
	w.swept++
	return feature.Outcome{Done: true, Message: "swept"}, nil
}

// pass makes one pass.
func (w *testWorld) pass() []reconcile.Pass {
	w.t.Helper()
	r, err := w.config.Reconciler(w.World)
	if err != nil {
		w.t.Fatal(err)
	}
	did, err := r.Once(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return did
}

func (w *testWorld) ahead() []reconcile.Pass {
	w.t.Helper()
	would, err := w.config.Ahead(w.t.Context(), w.World)
	if err != nil {
		w.t.Fatal(err)
	}
	return would
}

// report is what the promoter says of every feature, and time goes by.
func (w *testWorld) report() {
	w.t.Helper()
	all, err := w.Site.Features.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range all {
		on := f.Status.State == feature.On || f.Status.State == feature.TurningOn
		use := feature.Use{Identity: "promoter", Version: w.Version.String(), Checked: true, Value: on, LastSeen: w.now}
		if f, err = feature.Report(f, use); err == nil {
			_, err = w.Site.Features.Update(w.t.Context(), f)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.now = w.now.Add(3 * time.Minute)
}

// did is what a pass did to each feature, in words.
func did(passes []reconcile.Pass) map[string]string {
	words := map[string]string{}
	for _, p := range passes {
		words[p.Key.String()] = p.Did
	}
	return words
}

// TestAhead: what is foretold of a pass is what the pass does, and foretelling it
// does nothing.
func TestAhead(t *testing.T) {
	w := newTestWorld(t)
	nowhere := w.World
	nowhere.Site = featurestore.Site{} // one that was not prepared yet
	would, err := w.config.Ahead(t.Context(), nowhere)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if n > 0 {
			would = w.ahead()
		}
		if there, err := w.Site.Features.List(t.Context()); err != nil || n == 0 && len(there) > 0 || len(w.signed) != []int{0, 0, 6}[n] {
			t.Fatalf("before pass %d there are %d features, and %v is signed: %v", n, len(there), w.signed, err)
		}
		is := w.pass()
		for k, words := range did(is) {
			if did(would)[k] != words {
				t.Errorf("pass %d of %s: foretold %q, done %q", n, k, did(would)[k], words)
			}
		}
	}
	members, err := w.Site.Members.List(t.Context())
	if err != nil || len(members) != 1 {
		t.Errorf("%d reconcilers, %v", len(members), err)
	}
}

// TestTidies: a pass removes what a killed writer left; what is foretold of one
// does not.
func TestTidies(t *testing.T) {
	w := newTestWorld(t)
	w.pass()
	left := filepath.Join(w.Site.URI, "statements", ".waybill-tmp-A")
	if err := os.WriteFile(left, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.now = time.Now()
	old := w.now.Add(-48 * time.Hour)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	w.ahead()
	if _, err := os.Stat(left); err != nil {
		t.Errorf("nothing was to be done: %v", err)
	}
	w.pass()
	if _, err := os.Stat(left); err == nil {
		t.Error("it is still there")
	}
}

// TestAheadRunsNoTask: what a task would do is not done, and said.
func TestAheadRunsNoTask(t *testing.T) {
	w := newTestWorld(t)
	w.config.Wishes.Wanted[key(known.RequireProvenance)] = feature.Wanted{Desired: feature.On, Scope: feature.Scope{Everything: true}}
	for range 3 {
		w.pass()
		w.report()
	}
	before := w.swept
	words := did(w.ahead())["waybill/"+known.RequireProvenance]
	if w.swept != before || !strings.Contains(words, "would run task CoverageAudit over everything") {
		t.Errorf("%d tasks were run; %q", w.swept-before, words)
	}
	w.pass()
	if w.swept == before {
		t.Error("the pass itself runs none either")
	}
}

// TestReconcilerOfTwoNamespaces: a third party's feature goes the same way, by
// what its own users report.
func TestReconcilerOfTwoNamespaces(t *testing.T) {
	w := newTestWorld(t)
	for range 6 {
		w.pass()
		w.report()
	}
	f, err := w.Site.Features.Get(t.Context(), feature.Key{Namespace: "fleet", Name: "Drain"})
	if err != nil {
		t.Fatal(err)
	}
	if f.Status.State != feature.On || !slices.Equal(f.Status.Enforced.Repositories, []string{"registry.example.test/prod"}) {
		t.Errorf("it is %s at %+v: %+v", f.Status.State, f.Status.Enforced, f.Status.Tasks)
	}
	if !slices.Contains(w.signed, "fleet/Drain/1") || !slices.Contains(w.signed, "fleet/Drain/2") {
		t.Errorf("signed are %v", w.signed)
	}
}

// TestLoop: passes are made until it is told to end, and what goes wrong
// is told.
func TestLoop(t *testing.T) {
	w := newTestWorld(t)
	w.config.Every = time.Nanosecond
	w.Site.Features = failing{w.Site.Features, func() bool { return len(w.signed) == 0 && w.swept == 0 }}
	r, err := reconcile.New(reconcile.Config{
		Store: w.Site.Features, Registry: w.Registry, Deeds: w.Deeds, Expect: w.config.Expect, Signer: w,
		Self: reconcile.Self{Identity: "reconciler-0", Version: w.Version}, Clock: w.Clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	passes, failed := 0, 0
	w.config.Loop(ctx, r, func(_ context.Context, _ []reconcile.Pass, err error) {
		if passes++; err != nil {
			failed++
		}
		if passes == 3 {
			w.swept = 1 // the store answers from here on
		}
		if passes == 5 {
			stop()
		}
	})
	if passes != 5 || failed != 3 {
		t.Errorf("there were %d passes, of which %d failed", passes, failed)
	}
	w.config.Loop(ctx, r, func(context.Context, []reconcile.Pass, error) { t.Error("a pass was made") })
}

// failing is a store that does not answer for as long as it is said.
type failing struct {
	featurestore.Store
	down func() bool
}

func (f failing) List(ctx context.Context) ([]feature.Feature, error) {
	if f.down() {
		return nil, &verdict.UnavailableError{Place: "the site", Op: "listing", Err: errors.New("it is down")}
	}
	return f.Store.List(ctx)
}

// TestWish: people set what the store may decide, and no more.
func TestWish(t *testing.T) {
	w := newTestWorld(t)
	w.pass()
	w.pass() // what is dynamic is written by the second
	older, err := version.Parse("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name string
		wish config.Wish
		said string // "" takes it
	}{
		{"on somewhere", config.Wish{Key: key(known.StatusPage), Desired: feature.On, Scope: []string{"b.example.test/x", "a.example.test/x"}}, ""},
		{"off", config.Wish{Key: key(known.StatusPage), Desired: feature.Off}, ""},
		{"a version to prepare for", config.Wish{Key: key(known.BundleReferrers), PrepareFor: older}, ""},
		{"nothing", config.Wish{Key: key(known.StatusPage)}, "no change given"},
		{"a state on its way", config.Wish{Key: key(known.StatusPage), Desired: feature.TurningOn}, "want On or Off"},
		{"off somewhere", config.Wish{Key: key(known.StatusPage), Desired: feature.Off, Scope: []string{"a.example.test"}}, "a scope is only for On"},
		{"at a place that is none", config.Wish{Key: key(known.StatusPage), Desired: feature.On, Scope: []string{"A/B"}}, "want host/path"},
		{"what is reviewed", config.Wish{Key: key(known.EmitVSA), Desired: feature.Off}, "not dynamic: "},
		{"what its file does not leave to the store", config.Wish{Key: feature.Key{Namespace: "fleet", Name: "Drain"}, Desired: feature.Off}, "not dynamic: "},
		{"what is not there", config.Wish{Key: key("Nonsense"), Desired: feature.Off}, "no such feature"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			f, err := r.wish.Store(t.Context(), w.Site.Features)
			if r.said != "" {
				if err == nil || !strings.Contains(err.Error(), r.said) {
					t.Fatalf("%v, want one that says %q", err, r.said)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			stored, err := w.Site.Features.Get(t.Context(), r.wish.Key)
			if err != nil || stored.Metadata.Generation != f.Metadata.Generation {
				t.Fatalf("%+v, %v", stored.Metadata, err)
			}
			if r.wish.Desired != "" && stored.Spec.Desired != r.wish.Desired || !r.wish.PrepareFor.IsZero() && stored.Spec.PrepareFor != r.wish.PrepareFor.String() {
				t.Errorf("stored is %+v", stored.Spec)
			}
			if !slices.IsSorted(stored.Spec.Scope.Repositories) || len(stored.Spec.Scope.Repositories) != len(r.wish.Scope) {
				t.Errorf("the scope is %v", stored.Spec.Scope)
			}
		})
	}
}

// TestFind: who misspells a feature is told where the names are, and not to
// fetch a file.
func TestFind(t *testing.T) {
	w := newTestWorld(t)
	w.pass()
	if f, err := config.Find(t.Context(), w.Site.Features, key(known.StatusPage)); err != nil || f.Metadata.Name != known.StatusPage {
		t.Fatalf("%q, %v", f.Metadata.Name, err)
	}
	_, err := config.Find(t.Context(), w.Site.Features, key("Nonsense"))
	var said *verdict.Error
	if !errors.As(err, &said) || !errors.Is(err, featurestore.ErrNotFound) {
		t.Fatalf("%v, want one that is not found", err)
	}
	if said.Finding.Code != verdict.Missing || !strings.Contains(said.Finding.Fix, "waybill feature list") {
		t.Errorf("%+v", said.Finding)
	}
}

// TestWishWhileOthersReport: a report that comes in between is no reason to fail,
// and is not lost.
func TestWishWhileOthersReport(t *testing.T) {
	w := newTestWorld(t)
	w.pass()
	w.pass()
	s := &overtaken{Store: w.Site.Features, t: t, left: 3}
	if _, err := (config.Wish{Key: key(known.StatusPage), Desired: feature.Off}).Store(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	f, err := w.Site.Features.Get(t.Context(), key(known.StatusPage))
	if err != nil || f.Spec.Desired != feature.Off || len(f.Status.Uses) != 3 {
		t.Errorf("%q is wanted, and there are %d uses: %v", f.Spec.Desired, len(f.Status.Uses), err)
	}
}

// overtaken is a store in which others are quicker, some times.
type overtaken struct {
	featurestore.Store
	t    *testing.T
	left int
}

func (o *overtaken) Update(ctx context.Context, f feature.Feature) (feature.Feature, error) {
	if o.left > 0 {
		o.left--
		now, err := o.Get(ctx, f.Key())
		if err != nil {
			return feature.Feature{}, err
		}
		use := feature.Use{Identity: "promoter-" + string(rune('a'+o.left)), Version: "v0.2.0", LastSeen: time.Now()}
		if now, err = feature.Report(now, use); err == nil {
			_, err = o.Store.Update(ctx, now)
		}
		if err != nil {
			o.t.Error(err)
		}
	}
	return o.Store.Update(ctx, f)
}
