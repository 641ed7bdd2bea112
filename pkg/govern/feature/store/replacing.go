package featurestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// OpenDirectory is the store in a directory: one file for each feature,
// NAMESPACE/NAME.json, written atomically and durably under a lock. The directory must
// exist: a missing one may be a share that is not mounted, and creating an empty one would
// switch everything off.
//
// The lock excludes other programs on the same machine, on systems that can lock a
// directory. If several machines write, use a bucket.
func OpenDirectory(path string) (Store, error) {
	if path == "" {
		return nil, &verdict.UsageError{Err: errors.New("opening features: no directory is named")}
	}
	at, err := store.Open(path, nil)
	if err != nil {
		return nil, err
	}
	w, err := store.OpenWriter(path)
	if err != nil {
		return nil, err
	}
	there := func() error {
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			err = errors.New("not a directory")
		}
		if err != nil {
			return &verdict.UnavailableError{Place: at.URI(), Op: "opening features", Err: fmt.Errorf("%w; make the directory, or mount it", err)}
		}
		return nil
	}
	if err := there(); err != nil {
		return nil, err
	}
	return &replacing{at: Place{at, w}, there: there}, nil
}

// replacing stores one object for each feature.
type replacing struct {
	at    Place
	there func() error // returns why the place is missing
}

func fileName(k feature.Key) string { return k.Namespace + "/" + k.Name + ".json" }

// Get implements [Store].
func (r *replacing) Get(ctx context.Context, k feature.Key) (feature.Feature, error) {
	f, _, err := r.read(ctx, k)
	return f, err
}

func (r *replacing) read(ctx context.Context, k feature.Key) (feature.Feature, []byte, error) {
	if err := r.there(); err != nil {
		return feature.Feature{}, nil, err
	}
	return readAt(ctx, r.at, fileName(k), k)
}

// List implements [Store].
func (r *replacing) List(ctx context.Context) ([]feature.Feature, error) {
	objects, err := r.at.List(ctx)
	if err != nil {
		return nil, err
	}
	var list []feature.Feature
	for _, o := range objects {
		if store.IsStaging(o.Name) {
			continue // an unfinished write
		}
		k, is := fileOf(o.Name)
		if !is {
			return nil, notAFeature(r.at, o.Name)
		}
		f, err := r.Get(ctx, k)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return sorted(list), nil
}

// Create implements [Store].
func (r *replacing) Create(ctx context.Context, f feature.Feature) (feature.Feature, error) {
	if err := r.there(); err != nil {
		return feature.Feature{}, err
	}
	f, raw, err := first(f)
	if err != nil {
		return feature.Feature{}, err
	}
	err = r.at.Put(ctx, fileName(f.Key()), int64(len(raw)), bytes.NewReader(raw), store.PutOptions{IfAbsent: true, MediaType: mediaType})
	if errors.Is(err, store.ErrExists) {
		return feature.Feature{}, fmt.Errorf("creating feature %s: already exists: %w", f.Key(), ErrConflict)
	}
	if err != nil {
		return feature.Feature{}, err
	}
	return f, nil
}

// Update implements [Store]. The write replaces exactly the bytes of the generation that
// was read.
func (r *replacing) Update(ctx context.Context, f feature.Feature) (feature.Feature, error) {
	there, old, err := r.read(ctx, f.Key())
	if err != nil {
		return feature.Feature{}, err
	}
	if there.Metadata.Generation != f.Metadata.Generation {
		return feature.Feature{}, conflict(f, there.Metadata.Generation)
	}
	after, raw, err := next(f)
	if err != nil {
		return feature.Feature{}, err
	}
	err = store.Replace(ctx, r.at.Place, r.at.Writer, fileName(f.Key()), store.Replacement{Old: digest.Of(digest.SHA256, old), New: raw, MediaType: mediaType})
	switch {
	case errors.Is(err, store.ErrChanged):
		return feature.Feature{}, fmt.Errorf("writing feature %s over generation %d: %w", f.Key(), f.Metadata.Generation, ErrConflict)
	case errors.Is(err, store.ErrNotFound):
		return feature.Feature{}, fmt.Errorf("writing feature %s: %w", f.Key(), ErrNotFound)
	case err != nil:
		return feature.Feature{}, err
	}
	return after, nil
}
