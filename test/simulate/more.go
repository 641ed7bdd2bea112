package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/watched"
	kits "github.com/waybill-release/waybill/pkg/pipeline/kit"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/pipeline/watch"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// gate opens the gate as commands do.
func (m *Made) gate(ctx context.Context, in process) (gate.Gate, error) {
	return gate.Open(ctx, m.Path(in.Profile), gate.Opening{
		Reader: profile.Reader{Now: in.Clock()}, Transport: in.Transport, OpenPlace: cloud.OpenPlace,
	})
}

// carry writes the staged release into a kit, and publishes it from there elsewhere.
func carry(m *Made, w *World) error {
	w.Check = func(*Actor, *http.Request) error { return m.sound(w, "release") }
	kitOf := func(a *Actor) string { return filepath.Join(a.Disk, "lantern.kit") }
	run := func(a *Actor, ctx context.Context) error {
		g, err := m.gate(ctx, a.process())
		if err != nil {
			return err
		}
		if _, err := os.Stat(kitOf(a)); err != nil {
			files, wrong := cloud.OpenPlace(m.Places.Files+"/staging/lantern/"+scene.Version+"/", a.Transport)
			images, none := registry.OpenRemote(m.Lab.Registry+"/staging/lantern", a.Transport)
			if err := errors.Join(wrong, none); err != nil {
				return err
			}
			r := g.Release(m.version, profile.Release, gate.Places{Files: files, Images: images}, a.Clock())
			decided, err := kits.Export(ctx, g, r, kitOf(a), kits.Form{})
			if err == nil {
				err = decided.Verdict.Err()
			}
			if err != nil {
				return err
			}
		}
		return m.unpack(ctx, g, a, kitOf(a))
	}
	all := w.together([]string{"carrier"}, run)
	if err := w.settle(all[0], run); err != nil {
		return err
	}
	if w.file("release", "bin/lantern") == nil {
		return errors.New("the kit was imported, and its files are not there")
	}
	return m.sound(w, "release")
}

// unpack publishes the release in a kit, which must be whole: it has its name only then.
func (m *Made) unpack(ctx context.Context, g gate.Gate, a *Actor, path string) error {
	if _, err := kit.Check(ctx, path); err != nil {
		return fmt.Errorf("simulate: the kit has its name, and is not whole: %w", err)
	}
	files, wrong := store.Open(path+"/"+kit.Files, nil)
	images, none := registry.OpenLayout(path)
	place, bad := cloud.Open("gs+http://"+destBucket+"/release/lantern/"+scene.Version+"/", a.Transport)
	to, unnamed := registry.OpenRemote(destRegistry+"/release/lantern", a.Transport)
	if err := errors.Join(wrong, none, bad, unnamed); err != nil {
		return err
	}
	r := g.Release(m.version, profile.Release, gate.Places{Files: files, Images: images}, a.Clock())
	decided, err := kits.Import(ctx, g, r, promote.To{Files: place, Writer: place, Images: to})
	if err != nil {
		return err
	}
	return decided.Verdict.Err()
}

// watching follows the log. Under all faults it reports only unexplained entries and places
// that do not answer; at the end it has read the whole log, and reports each of these
// entries.
func watching(m *Made, w *World) error {
	_, size := m.Lab.LoggedSince(0)
	from := max(0, size-10)
	run := func(a *Actor, ctx context.Context) error {
		g, err := m.gate(ctx, a.process())
		if err != nil {
			return err
		}
		state := filepath.Join(a.Disk, "watch")
		if err := os.MkdirAll(state, 0o700); err != nil {
			return err
		}
		v := watch.Config{Gate: g, Transport: a.Transport, Logs: []string{m.Lab.Rekor}, State: state, Start: watch.Start{From: int64(from)}}.Once(ctx, a.Clock())
		open := 0
		for _, f := range v.Findings {
			switch {
			case f.Code == watched.Unexplained:
				open++
			case f.Code.Outcome() != verdict.Unavailable:
				return &verdict.Error{Finding: f}
			default:
				return &verdict.UnavailableError{Place: f.Subject, Op: "watching", Err: errors.New(f.Message)}
			}
		}
		if open == 0 {
			return errors.New("simulate: entries that nothing explains are in the log, and none is reported")
		}
		return nil
	}
	all := w.together([]string{"watcher"}, run)
	if err := w.settle(all[0], run); err != nil {
		return err
	}
	cursors, err := filepath.Glob(filepath.Join(all[0].Disk, "watch", "*.cursor.json"))
	if err != nil || len(cursors) != 1 {
		return fmt.Errorf("want one cursor, got %v: %w", cursors, err)
	}
	raw, err := os.ReadFile(cursors[0])
	if err != nil {
		return err
	}
	var c struct {
		Next int
		Open []struct{}
	}
	if err := json.Unmarshal(raw, &c); err != nil || c.Next != size || len(c.Open) != size-from {
		return fmt.Errorf("the log has %d entries, of which %d are not explained; the cursor says %d and %d (%w)", size, size-from, c.Next, len(c.Open), err)
	}
	return nil
}

// lantern is the feature that worlds switch on.
var lantern = feature.Key{Namespace: "waybill", Name: "Lantern"}

// features are several reconcilers of one site, which switch a feature on. Each transition
// must end with one statement, even if several of them signed it, or one did twice.
func features(m *Made, w *World) error {
	known, err := feature.NewRegistry(feature.Namespace{Name: lantern.Namespace, Features: []feature.Definition{
		{Name: lantern.Name, About: "there is light", Versions: []feature.Version{{Since: m.version, Stage: feature.Beta, Default: feature.Off}}},
	}})
	if err != nil {
		return err
	}
	_, before := m.Lab.LoggedSince(0)
	run := func(a *Actor, ctx context.Context) error {
		r, err := m.reconciler(ctx, a, known)
		if err != nil {
			return err
		}
		var all error
		for range 3 { // passes
			_, err := r.Once(ctx)
			all = err // the last one counts
			if ctx.Err() != nil {
				break
			}
			time.Sleep(20 * time.Second)
		}
		return all
	}
	all := w.together(w.actors(4), run)
	time.Sleep(10 * time.Minute) // those that are gone no longer count as live
	if err := w.settle(all[0], run); err != nil {
		return err
	}
	stored := w.look(destBucket, "/storage/v1/b/release/o?prefix=features/statements/")
	entries, _ := m.Lab.LoggedSince(before)
	contents := map[string]bool{}
	for _, e := range entries {
		contents[signedContent.FindStringSubmatch(e)[1]] = true
	}
	if n := bytes.Count(stored, []byte(`.sigstore.json","`)); n == 0 || len(contents) != n {
		return fmt.Errorf("%d statements are stored, and %d different ones were signed: %.300s", n, len(contents), stored)
	}
	return nil
}

// reconciler makes a reconciler as waybill feature reconcile does.
func (m *Made) reconciler(ctx context.Context, a *Actor, known feature.Registry) (*reconcile.Reconciler, error) {
	in := a.process()
	in.Profile = "features.yaml"
	g, err := m.gate(ctx, in)
	if err != nil {
		return nil, err
	}
	p := g.Profile()
	services, err := sign.ParseServices(p.Signing, a.Clock())
	if err != nil {
		return nil, err
	}
	site, err := featurestore.OpenSite("gs+http://"+destBucket+"/release/features", func(uri string) (featurestore.Place, error) {
		at, err := cloud.Open(strings.TrimSuffix(uri, "/")+"/", a.Transport)
		return featurestore.Place{Place: at, Writer: at}, err
	})
	if err != nil {
		return nil, err
	}
	by, err := sign.New(sign.Config{
		Role: policy.Reconciler, Policy: p.Policy, Verifier: g.Verifier(), Services: services, Transport: a.Transport, Clock: a.Clock,
		Token: minted{m.Lab, "reconciler@lab.invalid"}.Token, Work: sign.Work{Patience: time.Minute},
	})
	if err != nil {
		return nil, err
	}
	expect := map[string]reconcile.Expect{lantern.Namespace: {Reporters: []reconcile.Reporter{{Identity: "lamp", Every: time.Minute}}}}
	c := config.Config{Identity: a.name, Every: time.Minute, Expect: expect, Wishes: reconcile.Wishes{Wanted: map[feature.Key]feature.Wanted{
		lantern: {Desired: feature.On, Scope: feature.Scope{Everything: true}},
	}}}
	return c.Reconciler(config.World{
		Site: site, Registry: known, Deeds: map[feature.Key]reconcile.Deeds{lantern: {Dangling: reconcile.Nothing{}}}, Version: m.version, Clock: a.Clock,
		Signer:     config.Signer{By: by, Verifier: g.Verifier(), Policy: p.Policy, Statements: site.Statements},
		Statements: effective.Statements{At: site.Statements, Policy: p.Policy, Verifier: g.Verifier()},
	})
}
