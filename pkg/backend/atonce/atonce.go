// Package atonce makes calls at the same time, and never more than a given number
// of them, and makes for all of them once what they share.
//
//	atonce.Each(8, files, func(i int, f File) { sums[i] = sum(f) })
//	err := atonce.Try(ctx, 8, files, func(ctx context.Context, i int, f File) error { return copy(ctx, f) })
//
// Other projects should not import this package: it changes without notice.
package atonce

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Each calls do for each item, with its index.
func Each[T any](limit int, items []T, do func(i int, item T)) {
	_ = Try(context.Background(), limit, items, func(_ context.Context, i int, item T) error {
		do(i, item)
		return nil
	})
}

// Try calls do for each item, with its index, until one fails or ctx ends. It returns
// the first error, and ends the context of the other calls.
func Try[T any](ctx context.Context, limit int, items []T, do func(ctx context.Context, i int, item T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	for i, item := range items {
		group.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return do(ctx, i, item)
		})
	}
	return group.Wait()
}

// Memo keeps what was made for each key, or why it could not be made. The zero Memo
// is empty.
type Memo[V any] struct{ made sync.Map } // of func() (V, error)

// Get returns what was made for a key. It is made by the first call, and the others
// wait for that one alone.
func (m *Memo[V]) Get(key string, build func() (V, error)) (V, error) {
	once, _ := m.made.LoadOrStore(key, sync.OnceValues(build))
	return once.(func() (V, error))()
}
