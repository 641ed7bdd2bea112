package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/component-base/featuregate"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
)

// program is one that uses the feature, with an ordinary gate and a flag.
func program(t *testing.T, b *bench, identity, flag string) {
	t.Helper()
	g, err := componentbase.At(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := componentbase.Add(g, b.config.Registry, key.Namespace); err != nil {
		t.Fatal(err)
	}
	if err := g.Set(flag); err != nil {
		t.Fatal(err)
	}
	g.Enabled(featuregate.Feature(key.Name))
	if err := g.InitReporter(componentbase.Reporter{Store: b.config.Store, Namespace: key.Namespace, Identity: identity, Version: v(t, "v0.2.0"), Clock: func() time.Time { return b.now }}); err != nil {
		t.Fatal(err)
	}
	if err := g.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestF01: programs report how the feature is set on their command lines, and
// the reconciler turns it on when all that are expected have it so; over both
// stores.
func TestF01(t *testing.T) {
	for name, open := range map[string]func(*bench){
		"a directory": func(*bench) {},
		"an object for each generation": func(b *bench) {
			dir := t.TempDir()
			at, err := store.Open(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			w, err := store.OpenWriter(dir)
			if err != nil {
				t.Fatal(err)
			}
			b.store = featurestore.Appending(featurestore.Place{Place: at, Writer: w})
			b.config.Store = b.store
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			open(b)
			b.config.Expect["waybill"] = reconcile.Expect{Reporters: []reconcile.Reporter{{Identity: "promoter", Every: time.Hour}, {Identity: "nightly", Every: 24 * time.Hour}}}
			for _, n := range b.images.those(false) {
				b.images.set(n, true)
			}
			b.once()
			program(t, b, "promoter", "RequireLantern=false") // before anybody wants it
			b.want(feature.On)
			b.expect(feature.TurningOn, "Off to TurningOn")
			if uses := b.get().Status.Uses; len(uses) != 0 {
				t.Errorf("what was reported before counts: %+v", uses)
			}
			program(t, b, "nightly", "RequireLantern=true")
			program(t, b, "promoter", "RequireLantern=false")
			b.now = b.now.Add(48 * time.Hour)
			b.expect(feature.TurningOn, "") // one has the old value: the window opens again
			if task := b.get().Status.Tasks[0]; !task.Since.Equal(b.now) || task.Message != "the old value was reported by promoter (v0.2.0)" {
				t.Errorf("%+v", task)
			}
			program(t, b, "nightly", "RequireLantern=true")
			b.now = b.now.Add(48 * time.Hour)
			b.expect(feature.TurningOn, "") // and one did not run at all
			if task := b.get().Status.Tasks[0]; !task.Since.Equal(b.now) || task.Message != "reports are missing from: promoter" {
				t.Errorf("%+v", task)
			}
			program(t, b, "nightly", "RequireLantern=true")
			program(t, b, "promoter", "RequireLantern=true")
			b.now = b.now.Add(48 * time.Hour)
			b.expect(feature.TurningOn, "task WaitForUses is done")
			b.expect(feature.On, "TurningOn to On")
			if got := b.signed.follow(key); !slices.Equal(got, []string{"TurningOn", "On"}) {
				t.Errorf("signed: %q", got)
			}
			f := b.get()
			if got := f.Status.History[1].Transition.Tasks[0].Reporters; !slices.Equal(got, []string{"nightly", "promoter"}) {
				t.Errorf("the statement names %q", got)
			}
			if f.Mode("r.example.test/a") != feature.ModeRequire {
				t.Error("it is On and does not require")
			}
		})
	}
}
