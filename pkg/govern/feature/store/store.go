// Package featurestore keeps features where several programs can read and
// switch them.
//
// A [Store] orders all writes to one object: each update names the generation
// that it was made from, and one that another write has overtaken is refused.
// There is no lock that outlives a call, so a program that dies holds nobody
// up. Three answers stay apart: there is no such feature ([ErrNotFound]),
// somebody was quicker ([ErrConflict]), and nobody answered
// ([verdict.UnavailableError]), which is never one of the others. What is there
// and does not read is refused, and never taken for absent.
//
//	s, err := featurestore.OpenDirectory("/srv/gate/features")
//	…
//	f, err := s.Get(ctx, key)
//	f.Spec.Desired = feature.Off
//	f, err = featurestore.ForPeople(s).Update(ctx, f)
//
// [OpenDirectory] keeps one object for each feature in a directory of this
// machine. [Appending] is for buckets: it writes an object for each generation,
// which must be absent, and removes none, so that the history of every feature
// lies there.
//
// Whoever may write to the place may write any object into it. That a state was
// reached by a transition is proved by the signed statement about it, and that
// no state is below what is demanded, by the floor of a signed policy.
package featurestore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Store is where features are kept. Implementations are safe for concurrent
// use, retry nothing, and pass the suite of pkg/testing/checkfeatures.
type Store interface {
	// Get reads one feature.
	Get(ctx context.Context, k feature.Key) (feature.Feature, error)
	// List reads all, sorted by namespace and name.
	List(ctx context.Context) ([]feature.Feature, error)
	// Create writes a feature that is not there yet, as generation 1; one that
	// is there is [ErrConflict].
	Create(ctx context.Context, f feature.Feature) (feature.Feature, error)
	// Update writes over the generation that f has, as the next one, and answers
	// what it wrote. When it returns nil that is durable. On any error but
	// ErrConflict and ErrNotFound it may have been written all the same: read it
	// again.
	Update(ctx context.Context, f feature.Feature) (feature.Feature, error)
}

// The answers of a store that are no failures.
var (
	// ErrNotFound: there is no such feature.
	ErrNotFound error = sentinel{code: verdict.Missing, text: "no such feature"}
	// ErrConflict: somebody else wrote it first. Read it, and decide again.
	ErrConflict error = sentinel{code: verdict.FileConflict, text: "somebody else wrote the feature first"}
)

// sentinel is an error of which only the identity matters.
type sentinel struct {
	code verdict.Code
	text string
}

func (s sentinel) Error() string { return s.text }

// Code is the reason code of the refusal that the error amounts to.
func (s sentinel) Code() string { return string(s.code) }

// Place is where objects are read and written.
type Place struct {
	store.Place
	store.Writer
}

const mediaType = "application/json"

// readAt reads the object at name, which must be the feature that the name says.
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
		return feature.Feature{}, nil, verdict.Refuse(verdict.ConfigParse, name+" at "+at.URI(), "it is generation %d of %s, and lies where %s belongs", f.Metadata.Generation, f.Key(), k).
			Advise("find out who put it there; no program of ours does")
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
		return feature.Feature{}, nil, &verdict.UsageError{Err: fmt.Errorf("creating feature %s: it has generation %d already: update it", f.Key(), f.Metadata.Generation)}
	}
	return next(f)
}

// conflict says whose write came too late.
func conflict(f feature.Feature, has int) error {
	return fmt.Errorf("writing feature %s over generation %d, and generation %d is there: %w", f.Key(), f.Metadata.Generation, has, ErrConflict)
}

// stranger refuses what lies in a place of features and is none. It is not
// skipped, because what is skipped is never judged.
func stranger(at Place, name string) error {
	return verdict.Refuse(verdict.ConfigParse, name+" at "+at.URI(), "nothing but features belongs there").
		Advise("move it to another place; features have one of their own")
}

// files are the names of features, and generations those of one generation.
var (
	files       = regexp.MustCompile(`\A([a-z0-9-]+)/([A-Za-z0-9]+)\.json\z`)
	generations = regexp.MustCompile(`\A([a-z0-9-]+)/([A-Za-z0-9]+)/([1-9][0-9]{0,8})\.json\z`)
)

// fileOf reads the name of a feature's object.
func fileOf(name string) (feature.Key, bool) {
	m := files.FindStringSubmatch(name)
	if m == nil {
		return feature.Key{}, false
	}
	return feature.Key{Namespace: m[1], Name: m[2]}, true
}

// generationOf reads the name of the object of one generation.
func generationOf(name string) (feature.Key, int, bool) {
	m := generations.FindStringSubmatch(name)
	if m == nil {
		return feature.Key{}, 0, false
	}
	n, err := strconv.Atoi(m[3])
	return feature.Key{Namespace: m[1], Name: m[2]}, n, err == nil
}

// ForReporters is the store as a reporter writes to it: uses, and nothing else.
func ForReporters(s Store) Store { return narrow{Store: s, allow: feature.OnlyUses} }

// ForPeople is the store as people write to it: what is wanted of dynamic
// features, the version to prepare for, and nothing else.
func ForPeople(s Store) Store { return narrow{Store: s, allow: feature.OnlyWishes} }

// narrow is a store that refuses updates which change too much. It keeps honest
// programs honest; who writes past it is not kept from anything.
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
