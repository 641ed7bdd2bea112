package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sign"
)

// lantern is the feature that worlds switch on, and off.
var lantern = feature.Key{Namespace: "waybill", Name: "Lantern"}

// switched is what several reconcilers of one site and the program that reports its uses
// have in common.
type switched struct {
	*Made
	*World
	known feature.Registry
	until []time.Time // when the wish changes: On, then Off, then On

	mu     sync.Mutex // guards the fields below
	left   int        // objects to clean up
	unsure int        // passes that reverted a transition, or failed and may have
}

// Sweep implements [reconcile.Sweep]: each time some of the objects are gone.
func (s *switched) Sweep(ctx context.Context, _ reconcile.Work) (feature.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = max(0, s.left-2)
	return feature.Outcome{Done: s.left == 0, Remaining: s.left}, ctx.Err()
}

// Count implements [reconcile.Counter].
func (s *switched) Count(context.Context, reconcile.Work) (reconcile.Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left++
	return reconcile.Found{Count: s.left % 2}, nil
}

// wanted is the wish at a time.
func (s *switched) wanted(now time.Time) feature.State {
	n := 0
	for _, t := range s.until {
		if now.After(t) {
			n++
		}
	}
	return []feature.State{feature.On, feature.Off}[n%2]
}

// features are several reconcilers of one site, which switch a feature on, and in some
// worlds off and on again, while a program reports that it follows. Each transition must
// end with one statement, even if several of them signed it, or one did twice. One that
// was signed and is not stored yet, another process reverts if it is no longer wanted: then
// another statement follows about a transition of the same number.
func features(m *Made, w *World) (err error) {
	dice := w.dice("features")
	s := &switched{Made: m, World: w, left: 3}
	for range dice.IntN(3) {
		s.until = append(s.until, time.Now().Add(time.Duration(dice.Int64N(int64(15*time.Minute)))))
	}
	s.known, err = feature.NewRegistry(feature.Namespace{Name: lantern.Namespace, Features: []feature.Definition{{
		Name: lantern.Name, About: "there is light", Versions: []feature.Version{{Since: m.version, Stage: feature.Beta, Default: feature.Off}},
		OnTasks: []feature.Job{{Kind: feature.Sweep, Name: "Clean"}}, OffTasks: []feature.Job{{Kind: feature.Hold, Name: "Gone"}},
	}}})
	if err != nil {
		return err
	}
	_, before := m.Lab.LoggedSince(0)
	all := w.together(append(w.actors(4), "lamp"), s.run)
	time.Sleep(20 * time.Minute) // those that are gone no longer count as live, and the wish is the last one
	var last feature.Feature
	err = w.settle(all[0], func(ctx context.Context, a *Actor) error {
		pass, site, err := s.reconciler(ctx, a)
		if err != nil {
			return err
		}
		for range 60 {
			if err := errors.Join(pass(ctx), s.report(ctx, a, site)); err != nil {
				return err
			}
			if last, err = site.Features.Get(ctx, lantern); err != nil || last.Status.State == s.wanted(a.Clock()) {
				return errors.Join(err, pass(ctx))
			}
			time.Sleep(20 * time.Second)
		}
		return fmt.Errorf("after 60 passes %s is wanted, and the state is %s: %+v", s.wanted(a.Clock()), last.Status.State, last.Status.Tasks)
	})
	if err != nil {
		return err
	}
	return s.statements(last, before)
}

// statements compares what was signed with what is stored.
func (s *switched) statements(last feature.Feature, before int) error {
	stored := s.look(destBucket, "/storage/v1/b/release/o?prefix=features/statements/")
	entries, _ := s.Lab.LoggedSince(before)
	contents := map[string]bool{}
	for _, e := range entries {
		contents[signedContent.FindStringSubmatch(e)[1]] = true
	}
	if n := bytes.Count(stored, []byte(`.sigstore.json","`)); n != last.Status.Number || len(contents) < n || len(contents) > n+s.unsure {
		return fmt.Errorf("the feature is at transition %d, %d statements are stored, %d different ones were signed, and %d passes may have reverted one: %.300s", last.Status.Number, n, len(contents), s.unsure, stored)
	}
	return nil
}

// run is one process for some passes: a reconciler, or the program that reports.
func (s *switched) run(ctx context.Context, a *Actor) error {
	pass, site, err := s.reconciler(ctx, a)
	if err != nil {
		return err
	}
	for range 10 {
		if a.name == "lamp" {
			err = s.report(ctx, a, site)
		} else {
			err = pass(ctx)
		}
		if ctx.Err() != nil {
			break
		}
		time.Sleep(25 * time.Second)
	}
	return err // of the last one
}

// report reports that the program follows the feature.
func (s *switched) report(ctx context.Context, a *Actor, site featurestore.Site) error {
	f, err := site.Features.Get(ctx, lantern)
	if errors.Is(err, featurestore.ErrNotFound) {
		return nil
	}
	if err == nil {
		on := slices.Contains([]feature.State{feature.TurningOn, feature.On}, f.Status.State)
		f, err = feature.Report(f, feature.Use{Identity: "lamp", Version: s.version.String(), Value: on, LastSeen: a.Clock()})
	}
	if err == nil {
		_, err = featurestore.ForReporters(site.Features).Update(ctx, f)
	}
	if errors.Is(err, featurestore.ErrConflict) {
		return nil // it reports again soon
	}
	return err
}

// reconciler makes a reconciler as waybill feature reconcile does. It reads the wish
// before each pass.
func (s *switched) reconciler(ctx context.Context, a *Actor) (pass func(context.Context) error, site featurestore.Site, err error) {
	in := a.process()
	in.Profile = "features.yaml"
	g, err := s.gate(ctx, in)
	if err != nil {
		return nil, site, err
	}
	p := g.Profile()
	services, err := sign.ParseServices(p.Signing, a.Clock())
	if err != nil {
		return nil, site, err
	}
	site, err = featurestore.OpenSite("gs+http://"+destBucket+"/release/features", func(uri string) (featurestore.Place, error) {
		at, err := cloud.Open(strings.TrimSuffix(uri, "/")+"/", a.Transport)
		return featurestore.Place{Place: at, Writer: at}, err
	})
	if err != nil {
		return nil, site, err
	}
	by, err := sign.New(sign.Config{
		Role: policy.Reconciler, Policy: p.Policy, Verifier: g.Verifier(), Services: services, Transport: a.Transport, Clock: a.Clock,
		Token: minted{s.Lab, "reconciler@lab.invalid"}.Token, Work: sign.Work{Patience: time.Minute},
	})
	if err != nil {
		return nil, site, err
	}
	expect := map[string]reconcile.Expect{lantern.Namespace: {Reporters: []reconcile.Reporter{{Identity: "lamp", Every: 40 * time.Second}}}}
	deeds := reconcile.Deeds{Sweeps: map[string]reconcile.Sweep{"Clean": s}, Holds: map[string]reconcile.Counter{"Gone": s}, Dangling: reconcile.Nothing{}}
	return func(ctx context.Context) error {
		wanted := feature.Wanted{Desired: s.wanted(a.Clock()), Scope: feature.Scope{Everything: true}}
		c := config.Config{Identity: a.name, Every: time.Minute, Expect: expect, Wishes: reconcile.Wishes{Wanted: map[feature.Key]feature.Wanted{lantern: wanted}}}
		r, err := c.Reconciler(config.World{
			Site: site, Registry: s.known, Deeds: map[feature.Key]reconcile.Deeds{lantern: deeds}, Version: s.version, Clock: a.Clock,
			Signer:     config.Signer{By: by, Verifier: g.Verifier(), Policy: p.Policy, Statements: site.Statements},
			Statements: effective.Statements{At: site.Statements, Policy: p.Policy, Verifier: g.Verifier()},
		})
		if err != nil {
			return err
		}
		passes, err := r.Once(ctx)
		if err != nil || slices.ContainsFunc(passes, func(p reconcile.Pass) bool { return strings.Contains(p.Did, "reverted to transition") }) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.unsure++
		}
		return err
	}, site, nil
}
