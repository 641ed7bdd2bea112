package featurestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Appending is the store in a place that can only create objects and list them. Each
// generation is an object of its own, NAMESPACE/NAME/GENERATION.json, and is never
// removed. A missing generation is refused, except that missing newest ones cannot be
// detected: do not give programs that write there the permission to delete.
func Appending(at Place) Store { return &appending{at: at} }

// appending stores one object for each generation.
type appending struct{ at Place }

func generationName(k feature.Key, generation int) string {
	return k.Namespace + "/" + k.Name + "/" + strconv.Itoa(generation) + ".json"
}

// newest lists the newest generation of each feature.
func (a *appending) newest(ctx context.Context) (map[feature.Key]int, error) {
	objects, err := a.at.List(ctx)
	if err != nil {
		return nil, err
	}
	highest, count := map[feature.Key]int{}, map[feature.Key]int{}
	for _, o := range objects {
		if store.IsStaging(o.Name) {
			continue // an unfinished write
		}
		k, generation, is := generationOf(o.Name)
		if !is {
			return nil, notAFeature(a.at, o.Name)
		}
		highest[k] = max(highest[k], generation)
		count[k]++
	}
	for k, n := range highest {
		if count[k] != n {
			return nil, verdict.Refuse(verdict.FileConflict, "feature "+k.String()+" at "+a.at.URI(), "generation %d is the newest, but earlier generations are missing: %d", n, n-count[k]).
				Advise("find out who removed them, and restore them")
		}
	}
	return highest, nil
}

// Get implements [Store].
func (a *appending) Get(ctx context.Context, k feature.Key) (feature.Feature, error) {
	newest, err := a.newest(ctx)
	if err != nil {
		return feature.Feature{}, err
	}
	return a.read(ctx, k, newest[k])
}

func (a *appending) read(ctx context.Context, k feature.Key, generation int) (feature.Feature, error) {
	if generation == 0 {
		return feature.Feature{}, fmt.Errorf("reading feature %s at %q: %w", k, a.at.URI(), ErrNotFound)
	}
	f, _, err := readAt(ctx, a.at, generationName(k, generation), k)
	switch {
	case errors.Is(err, ErrNotFound):
		return feature.Feature{}, &verdict.UnavailableError{Place: a.at.URI(), Op: "reading feature " + k.String(), Err: fmt.Errorf("generation %d is listed, but missing", generation)}
	case err == nil && f.Metadata.Generation != generation:
		return feature.Feature{}, verdict.Refuse(verdict.ConfigParse, generationName(k, generation)+" at "+a.at.URI(), "the object has generation %d", f.Metadata.Generation).
			Advise("find out who wrote it; Waybill does not")
	}
	return f, err
}

// List implements [Store].
func (a *appending) List(ctx context.Context) ([]feature.Feature, error) {
	newest, err := a.newest(ctx)
	if err != nil {
		return nil, err
	}
	var list []feature.Feature
	for k, generation := range newest {
		f, err := a.read(ctx, k, generation)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return sorted(list), nil
}

// Create implements [Store].
func (a *appending) Create(ctx context.Context, f feature.Feature) (feature.Feature, error) {
	f, raw, err := first(f)
	if err != nil {
		return feature.Feature{}, err
	}
	return a.put(ctx, f, raw)
}

// Update implements [Store].
func (a *appending) Update(ctx context.Context, f feature.Feature) (feature.Feature, error) {
	newest, err := a.newest(ctx)
	if err != nil {
		return feature.Feature{}, err
	}
	switch has := newest[f.Key()]; {
	case has == 0:
		return feature.Feature{}, fmt.Errorf("writing feature %s: %w", f.Key(), ErrNotFound)
	case has != f.Metadata.Generation:
		return feature.Feature{}, conflict(f, has)
	}
	if _, err := a.read(ctx, f.Key(), f.Metadata.Generation); err != nil {
		return feature.Feature{}, err // do not hide an invalid object behind a new one
	}
	after, raw, err := next(f)
	if err != nil {
		return feature.Feature{}, err
	}
	return a.put(ctx, after, raw)
}

// put writes one generation, which must not exist, and returns it.
func (a *appending) put(ctx context.Context, f feature.Feature, raw []byte) (feature.Feature, error) {
	name := generationName(f.Key(), f.Metadata.Generation)
	err := a.at.Put(ctx, name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{IfAbsent: true, MediaType: mediaType})
	if errors.Is(err, store.ErrExists) {
		err = fmt.Errorf("writing generation %d of feature %s: %w", f.Metadata.Generation, f.Key(), ErrConflict)
	}
	if err != nil {
		return feature.Feature{}, err
	}
	return f, nil
}

func sorted(list []feature.Feature) []feature.Feature {
	slices.SortFunc(list, func(a, b feature.Feature) int { return strings.Compare(a.Key().String(), b.Key().String()) })
	return list
}
