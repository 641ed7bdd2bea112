package cloud

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// OpenPlace returns the place at uri as [store.Open] does. A bucket that denies
// anonymous access is asked again with credentials; no other bucket receives
// them.
func OpenPlace(uri string, rt http.RoundTripper) (store.Place, error) {
	public, err := store.Open(uri, rt)
	if err != nil {
		return nil, err
	}
	at, err := store.ParseBucket(uri)
	if err != nil || at.Emulated {
		return public, nil //nolint:nilerr // it is a place of another kind
	}
	known, err := Open(uri, rt)
	if err != nil {
		return nil, err
	}
	return &private{Place: public, known: known}, nil
}

// private is a bucket that may be private.
type private struct {
	store.Place
	known  *Bucket
	denied atomic.Bool // the bucket denied anonymous access
}

// List implements [store.Place].
func (p *private) List(ctx context.Context) ([]store.Object, error) {
	if !p.denied.Load() {
		objects, err := p.Place.List(ctx)
		if !p.demands(err) {
			return objects, err
		}
	}
	return p.known.List(ctx)
}

// Open implements [store.Place].
func (p *private) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if !p.denied.Load() {
		body, size, err := p.Place.Open(ctx, name)
		if !p.demands(err) {
			return body, size, err
		}
	}
	return p.known.Open(ctx, name)
}

func (p *private) demands(err error) bool {
	if !errors.Is(err, store.ErrPrivate) {
		return false
	}
	p.denied.Store(true)
	return true
}
