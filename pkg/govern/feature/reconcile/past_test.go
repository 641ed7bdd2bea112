package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
)

// Signed implements [reconcile.Statements] by what was really signed.
func (s *statements) Signed(context.Context) (reconcile.Signed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := really{}
	for name, raw := range s.said {
		st, err := intoto.Parse([]byte(raw))
		if err != nil {
			return nil, err
		}
		said, err := featuretransition.Parse(st)
		if err != nil {
			return nil, err
		}
		p[name] = feature.LastSigned{Said: said, Statement: name + ".sigstore.json"}
	}
	return p, nil
}

type really map[string]feature.LastSigned

func (p really) Has(k feature.Key, number int) bool {
	return p[fmt.Sprintf("%s/%d", k, number)].Said.Number > 0
}

func (p really) Last(_ context.Context, k feature.Key) (last feature.LastSigned, err error) {
	for n := 1; p.Has(k, n); n++ {
		last = p[fmt.Sprintf("%s/%d", k, n)]
	}
	return last, nil
}

// TestWrittenPastTheReconciler: whoever can write to the store, and cannot sign,
// has no transition signed but the one that the reconciler would make itself.
func TestWrittenPastTheReconciler(t *testing.T) {
	said := func(f *feature.Feature, to feature.State, enforced, preparing feature.Scope) {
		s := &f.Status
		s.Number++
		s.History = append(s.History, feature.Entry{Transition: featuretransition.Predicate{
			Namespace: key.Namespace, Name: key.Name, Number: s.Number, From: string(s.State), To: string(to), At: s.History[0].Transition.At,
			Enforced: enforced, Preparing: preparing, Reconciler: "gate-1", Version: "v0.2.0", Reason: "it is wanted", Tasks: s.History[1].Transition.Tasks,
		}})
		if to == s.State {
			s.History[len(s.History)-1].Transition.Tasks = nil // a narrower scope takes none
		}
		s.State, s.Enforced, s.Preparing, s.Tasks, s.Done = to, enforced, preparing, nil, nil
	}
	all, part := feature.Scope{Everything: true}, feature.Scope{Repositories: []string{"r.example.test/a"}}
	off := func(f *feature.Feature) {
		said(f, feature.TurningOff, feature.Scope{}, all)
		s := &f.Status
		s.Tasks = []feature.Task{{Kind: feature.WaitForUses, Name: string(feature.WaitForUses), Since: s.History[0].Transition.At}, {Kind: feature.Sweep, Name: "Strip"}}
	}
	steps := []string{"TurningOn", "On"}
	for name, row := range map[string]struct {
		change func(*feature.Feature)
		want   feature.State
		signed []string
		did    string
	}{
		"nothing":                    {func(*feature.Feature) {}, feature.On, steps, ""},
		"on its way to Off":          {off, feature.On, steps, "reverted to transition 2"},
		"the same, and it is wanted": {off, feature.Off, append(slices.Clone(steps), "TurningOff"), ""},
		"enforced in less":           {func(f *feature.Feature) { said(f, feature.On, part, feature.Scope{}) }, feature.On, steps, "reverted to transition 2"},
		"Off, and it is to be Off":   {func(f *feature.Feature) { off(f); said(f, feature.Off, feature.Scope{}, feature.Scope{}) }, feature.Off, steps, "FEATURE_STATE"},
		"another word about what was": {func(f *feature.Feature) {
			f.Status.History[1].Statement, f.Status.History[1].Transition.Reason = "", "x"
		}, feature.On, steps, ""},
		"signed, and not written down": {func(f *feature.Feature) { f.Status.History[1].Statement = "" }, feature.On, steps, ""},
		"one more, and one before it":  {func(f *feature.Feature) { off(f); f.Status.History[0].Statement = "" }, feature.On, steps, "reverted to transition 2"},
		"another state of that number": {func(f *feature.Feature) { f.Status.Enforced = part; f.Status.History[1].Transition.Enforced = part }, feature.On, steps, "restored"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.config.Self.Statements = b.signed
			b.want(feature.On)
			for n := 0; b.get0() != feature.On; n++ {
				b.once()
				if f, err := b.store.Get(t.Context(), key); err == nil && len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Kind == feature.WaitForUses {
					b.heard(true)
				}
				for _, n := range b.images.those(false) {
					b.images.set(n, true)
				}
				if n > 30 {
					t.Fatal("it does not get there")
				}
			}
			f := b.get()
			row.change(&f)
			if _, err := b.store.Update(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			b.want(row.want)
			passes, err := b.reconciler().Once(t.Context())
			did := passes[0].Did
			if err != nil {
				did += err.Error()
			}
			if !strings.Contains(did, row.did) || row.did == "" && err != nil {
				t.Errorf("it did %q, want %q", did, row.did)
			}
			if got := b.signed.follow(key); !slices.Equal(got, row.signed) {
				t.Errorf("signed: %q, want %q", got, row.signed)
			}
			if f := b.get(); row.want == feature.On && (f.Status.Number != 2 || f.Status.State != feature.On || !f.Status.Enforced.Everything) {
				t.Errorf("it stands at %+v", f.Effective())
			}
		})
	}
}

// TestWrittenFirst: nothing that somebody else writes is the first that is signed.
func TestWrittenFirst(t *testing.T) {
	for want, signed := range map[feature.State]int{feature.Off: 0, feature.On: 1} {
		b := newBench(t)
		b.config.Self.Statements = b.signed
		b.once()
		f := b.get()
		s := &f.Status
		s.State, s.Number, s.Preparing = feature.TurningOn, 1, feature.Scope{Everything: true}
		s.Tasks = []feature.Task{{Kind: feature.WaitForUses, Name: string(feature.WaitForUses), Since: b.now}, {Kind: feature.Sweep, Name: "Audit"}}
		s.History = []feature.Entry{{Transition: featuretransition.Predicate{
			Namespace: key.Namespace, Name: key.Name, Number: 1, From: "Off", To: "TurningOn", At: b.now,
			Preparing: s.Preparing, Reconciler: "gate-1", Version: "v0.2.0", Reason: "On is wanted", Tasks: []featuretransition.Task{{Kind: "WaitForUses", Name: "WaitForUses"}},
		}}}
		if _, err := b.store.Update(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		b.want(want)
		if _, err := b.reconciler().Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.signed.follow(key); len(got) != signed {
			t.Errorf("%s is wanted: signed %q", want, got)
		}
		if f := b.get(); want == feature.Off && (f.Status.Number != 0 || f.Status.State != feature.Off) {
			t.Errorf("it stands at %+v", f.Effective())
		}
	}
}
