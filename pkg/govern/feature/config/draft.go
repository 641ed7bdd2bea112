package config

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
)

// draft is a store whose writes stay in memory, for one pass.
type draft struct {
	featurestore.Store // nil if the site is not prepared
	written            map[feature.Key]feature.Feature
	// would describes the task that a pass would have run.
	would map[feature.Key]string
}

// Get implements [featurestore.Store].
func (d *draft) Get(ctx context.Context, k feature.Key) (feature.Feature, error) {
	switch f, written := d.written[k]; {
	case written:
		return f, nil
	case d.Store == nil:
		return feature.Feature{}, featurestore.ErrNotFound
	}
	return d.Store.Get(ctx, k)
}

// List implements [featurestore.Store].
func (d *draft) List(ctx context.Context) ([]feature.Feature, error) {
	byKey := map[feature.Key]feature.Feature{}
	if d.Store != nil {
		there, err := d.Store.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, f := range there {
			byKey[f.Key()] = f
		}
	}
	maps.Copy(byKey, d.written)
	return slices.SortedFunc(maps.Values(byKey), func(a, b feature.Feature) int {
		return strings.Compare(a.Key().String(), b.Key().String())
	}), nil
}

// Create implements [featurestore.Store].
func (d *draft) Create(ctx context.Context, f feature.Feature) (feature.Feature, error) {
	if _, err := d.Get(ctx, f.Key()); !errors.Is(err, featurestore.ErrNotFound) {
		return feature.Feature{}, errors.Join(featurestore.ErrConflict, err)
	}
	return d.write(f)
}

// Update implements [featurestore.Store].
func (d *draft) Update(_ context.Context, f feature.Feature) (feature.Feature, error) {
	return d.write(f)
}

func (d *draft) write(f feature.Feature) (feature.Feature, error) {
	f.Metadata.Generation++
	if err := f.Validate(); err != nil {
		return feature.Feature{}, err
	}
	d.written[f.Key()] = f
	return f, nil
}

// deeds are the tasks of a world, none of which runs. Counters only read, so they do
// run.
func (d *draft) deeds(w World) map[feature.Key]reconcile.Deeds {
	all := map[feature.Key]reconcile.Deeds{}
	for k, deeds := range w.Deeds {
		sweeps := map[string]reconcile.Sweep{}
		for name := range deeds.Sweeps {
			sweeps[name] = unswept{d, k, name}
		}
		deeds.Sweeps = sweeps
		all[k] = deeds
	}
	return all
}

// unswept is a task that does not run.
type unswept struct {
	draft *draft
	key   feature.Key
	name  string
}

// Sweep implements [reconcile.Sweep].
func (u unswept) Sweep(_ context.Context, w reconcile.Work) (feature.Outcome, error) {
	u.draft.would[u.key] = "would run task " + u.name + " over " + where(w.Scope)
	return feature.Outcome{Remaining: 1, Message: "not run"}, nil
}

func joined(text, more string) string {
	if text == "" {
		return more
	}
	return text + "; " + more
}
