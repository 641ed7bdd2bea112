// Package featurestore stores features where several programs can read and switch them.
//
// A [Store] orders all writes to one object: each update names the generation that it
// replaces, and is refused if another write came first. No lock outlives a call, so a
// program that dies blocks no other. Three errors are distinct: no such feature
// ([ErrNotFound]), another write came first ([ErrConflict]), and the store did not answer
// ([verdict.UnavailableError]). An invalid object is refused, and never counts as absent.
//
//	s, err := featurestore.OpenDirectory("/srv/gate/features")
//	…
//	f, err := s.Get(ctx, key)
//	f.Spec.Desired = feature.Off
//	f, err = featurestore.ForPeople(s).Update(ctx, f)
//
// [OpenDirectory] stores one object for each feature in a directory on this machine.
// [Appending] is for buckets: it creates an object for each generation and removes none,
// so the bucket has the history of every feature. [OpenSite] also opens a namespace of a
// Kubernetes cluster, with a custom resource for each feature.
//
// Anyone with write access to the place can write any object. The signed statement about
// a transition proves a state, and the floor of a signed policy limits what a state can
// switch off.
//
// Other projects should not import this package: it changes without notice.
package featurestore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Store stores features. Implementations are safe for concurrent use, retry nothing, and
// pass the suite of pkg/testing/checkfeatures.
type Store interface {
	// Get reads one feature.
	Get(ctx context.Context, k feature.Key) (feature.Feature, error)
	// List reads all, sorted by namespace and name.
	List(ctx context.Context) ([]feature.Feature, error)
	// Create writes a new feature, as generation 1; an existing one is
	// [ErrConflict].
	Create(ctx context.Context, f feature.Feature) (feature.Feature, error)
	// Update replaces the generation of f by the next one, and returns that. If the
	// error is nil the write is durable. After any error but ErrConflict and
	// ErrNotFound it may have been written: read it again.
	Update(ctx context.Context, f feature.Feature) (feature.Feature, error)
}

// The errors that a caller can act on.
var (
	// ErrNotFound: there is no such feature.
	ErrNotFound error = sentinel{code: verdict.Missing, text: "no such feature"}
	// ErrConflict: another program wrote it first. Read it, and decide again.
	ErrConflict error = sentinel{code: verdict.FileConflict, text: "another program wrote the feature first"}
)

// sentinel is an error that is only compared.
type sentinel struct {
	code verdict.Code
	text string
}

func (s sentinel) Error() string { return s.text }

// Code is the reason code of the error.
func (s sentinel) Code() string { return string(s.code) }

// Place is where objects are read and written.
type Place struct {
	store.Place
	store.Writer
}

const mediaType = "application/json"

// readAt reads the object at name, which must be the feature k.
func readAt(ctx context.Context, at Place, name string, k feature.Key) (feature.Feature, []byte, error) {
	raw, err := store.Read(ctx, at, name, feature.MaxSize)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return feature.Feature{}, nil, fmt.Errorf("reading feature %s at %q: %w", k, at.URI(), ErrNotFound)
	case err != nil:
		return feature.Feature{}, nil, fmt.Errorf("reading feature %s: %w", k, err)
	}
	f, err := feature.Parse(raw)
	if err != nil {
		return feature.Feature{}, nil, fmt.Errorf("reading %q at %q: %w", name, at.URI(), err)
	}
	if f.Key() != k || f.Metadata.Generation < 1 {
		return feature.Feature{}, nil, verdict.Refuse(verdict.ConfigParse, name+" at "+at.URI(), "the object is generation %d of %s, not %s", f.Metadata.Generation, f.Key(), k).
			Advise("find out who wrote it; Waybill does not")
	}
	return f, raw, nil
}

// next is the object of the next generation, and its bytes.
func next(f feature.Feature) (feature.Feature, []byte, error) {
	f.Metadata.Generation++
	raw, err := f.Bytes()
	if err != nil {
		return feature.Feature{}, nil, err
	}
	return f, raw, nil
}

// first is the object of generation 1, and its bytes.
func first(f feature.Feature) (feature.Feature, []byte, error) {
	if f.Metadata.Generation != 0 {
		return feature.Feature{}, nil, &verdict.UsageError{Err: fmt.Errorf("creating feature %s: it already has generation %d; use Update", f.Key(), f.Metadata.Generation)}
	}
	return next(f)
}

// conflict is the error of an update of an old generation.
func conflict(f feature.Feature, has int) error {
	return fmt.Errorf("writing feature %s over generation %d, but generation %d is stored: %w", f.Key(), f.Metadata.Generation, has, ErrConflict)
}

// notAFeature refuses an object that is no feature. It is not skipped, because a misnamed
// feature would silently be ignored.
func notAFeature(at Place, name string) error {
	return verdict.Refuse(verdict.ConfigParse, name+" at "+at.URI(), "not a feature, and only features belong there").
		Advise("move it to another place")
}

// files matches names of features, and generations those of single generations.
var (
	files       = pattern.Lazy(`\A([a-z0-9-]+)/([A-Za-z0-9]+)\.json\z`)
	generations = pattern.Lazy(`\A([a-z0-9-]+)/([A-Za-z0-9]+)/([1-9][0-9]{0,8})\.json\z`)
)

// fileOf reads the name of a feature's object.
func fileOf(name string) (feature.Key, bool) {
	m := files().FindStringSubmatch(name)
	if m == nil {
		return feature.Key{}, false
	}
	return feature.Key{Namespace: m[1], Name: m[2]}, true
}

// generationOf reads the name of the object of one generation.
func generationOf(name string) (feature.Key, int, bool) {
	m := generations().FindStringSubmatch(name)
	if m == nil {
		return feature.Key{}, 0, false
	}
	n, err := strconv.Atoi(m[3])
	return feature.Key{Namespace: m[1], Name: m[2]}, n, err == nil
}

// ForReporters is the store with the rights of a reporter: it writes only uses.
func ForReporters(s Store) Store { return narrow{Store: s, allow: feature.OnlyUses} }

// ForPeople is the store with the rights of people: they write only the desired state of
// dynamic features, and the version to prepare for.
func ForPeople(s Store) Store { return narrow{Store: s, allow: feature.OnlyWishes} }

// narrow is a store that refuses updates of other fields. It protects against mistakes,
// not against programs that write to the place directly.
type narrow struct {
	Store
	allow func(before, after feature.Feature) error
}

// Create implements [Store]: only a reconciler announces features.
func (n narrow) Create(_ context.Context, f feature.Feature) (feature.Feature, error) {
	return feature.Feature{}, &verdict.UsageError{Err: fmt.Errorf("creating feature %s: only a reconciler announces features", f.Key())}
}

// Update implements [Store].
func (n narrow) Update(ctx context.Context, f feature.Feature) (feature.Feature, error) {
	before, err := n.Get(ctx, f.Key())
	if err != nil {
		return feature.Feature{}, err
	}
	if before.Metadata.Generation != f.Metadata.Generation {
		return feature.Feature{}, conflict(f, before.Metadata.Generation)
	}
	if err := n.allow(before, f); err != nil {
		return feature.Feature{}, err
	}
	return n.Store.Update(ctx, f)
}
