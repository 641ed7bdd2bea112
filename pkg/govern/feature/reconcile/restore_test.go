package reconcile_test

import (
	"context"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ledger is what was signed of the features of a bench, as it is or as it was.
type ledger struct {
	b      *bench
	listed int
	// as is what a list has in place of what is signed, by how many were made
	// before.
	as map[int]map[feature.Key]feature.LastSigned
}

type page map[feature.Key]feature.LastSigned

func (p page) Has(k feature.Key, number int) bool { return number <= p[k].Said.Number }

func (p page) Last(_ context.Context, k feature.Key) (feature.LastSigned, error) { return p[k], nil }

// Signed implements [reconcile.Statements].
func (l *ledger) Signed(ctx context.Context) (reconcile.Signed, error) {
	l.listed++
	if p, other := l.as[l.listed]; other {
		return page(p), nil
	}
	return l.now(ctx), nil
}

func (l *ledger) now(ctx context.Context) page {
	all, err := l.b.store.List(ctx)
	if err != nil {
		l.b.t.Error(err)
	}
	p := page{}
	for _, f := range all {
		for _, e := range f.Status.History {
			if e.Statement != "" {
				p[f.Key()] = feature.LastSigned{Said: e.Transition, Statement: e.Statement}
			}
		}
	}
	return p
}

// TestStatementsAreListedOnce: a pass lists the statements once, however many
// features there are; once more if what it then reads cannot be by that list;
// and if it still cannot, it is refused.
func TestStatementsAreListedOnce(t *testing.T) {
	b := newBench(t)
	mine, _ := b.config.Registry.Definition(key)
	definitions := []feature.Definition{mine}
	for _, name := range []string{"A", "B", "C"} {
		definitions = append(definitions, feature.Definition{Name: name, About: "it is one of several", Versions: mine.Versions})
		b.config.Deeds[feature.Key{Namespace: key.Namespace, Name: name}] = reconcile.Deeds{Dangling: reconcile.Nothing{}}
	}
	var err error
	if b.config.Registry, err = feature.NewRegistry(feature.Namespace{Name: key.Namespace, Features: definitions}); err != nil {
		t.Fatal(err)
	}
	l := &ledger{b: b, as: map[int]map[feature.Key]feature.LastSigned{}}
	b.config.Self.Statements = l
	pass := func(lists int, want verdict.Code) {
		t.Helper()
		before := l.listed
		_, err := b.reconciler().Once(t.Context())
		if (err == nil) != (want == "") || err != nil && verdict.FindingOf("", err).Code != want {
			t.Errorf("%v, want %q", err, want)
		}
		if l.listed-before != lists {
			t.Errorf("the statements were listed %d times, want %d", l.listed-before, lists)
		}
	}
	pass(1, "")
	b.want(feature.On)
	pass(1, "")
	first := l.now(t.Context())
	b.want(feature.Off)
	pass(1, "")
	b.want(feature.On)
	pass(1, "")

	l.as[l.listed+1] = first // others went on after it was made
	pass(2, "")
	l.as[l.listed+1], l.as[l.listed+2] = first, first
	pass(2, verdict.FeatureState)
	pass(1, "")
	if f := b.get(); f.Status.Number != 3 {
		t.Errorf("it is at transition %d", f.Status.Number)
	}
}
