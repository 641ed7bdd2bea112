package store_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
)

// memory is a place that holds its objects in memory, by name.
type memory map[string]string

func (memory) URI() string { return "mem://" }

func (m memory) List(ctx context.Context) (all []store.Object, err error) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, store.Object{Name: name, Size: int64(len(m[name]))})
	}
	return all, ctx.Err()
}

func (m memory) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := store.CheckName(name); err != nil {
		return nil, 0, err
	}
	text, there := m[name]
	if !there {
		return nil, 0, fmt.Errorf("opening %q: %w", name, store.ErrNotFound)
	}
	return io.NopCloser(strings.NewReader(text)), int64(len(text)), ctx.Err()
}

// TestHowToAddPlace runs the suite that every place must pass on the place that
// docs/architecture.md shows.
func TestHowToAddPlace(t *testing.T) {
	checkplaces.Read(t, func(*testing.T) store.Place { return memory(checkplaces.Contents()) })
}
