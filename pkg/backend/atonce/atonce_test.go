package atonce_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
)

// TestEach: every item is given with its index, and no more calls than the limit
// run at the same time.
func TestEach(t *testing.T) {
	const limit = 3
	var running atomic.Int64
	items, got := []string{"a", "b", "c", "d", "e", "f", "g", "h"}, make([]string, 8)
	atonce.Each(limit, items, func(i int, item string) {
		if n := running.Add(1); n > limit {
			t.Errorf("%d calls at the same time", n)
		}
		got[i] = item
		running.Add(-1)
	})
	for i, item := range items {
		if got[i] != item {
			t.Errorf("%d: %q, want %q", i, got[i], item)
		}
	}
}

// TestTry: the first error is returned, and no item is begun after it.
func TestTry(t *testing.T) {
	first, begun := errors.New("first"), 0
	err := atonce.Try(t.Context(), 1, []int{1, 2, 3}, func(_ context.Context, i, _ int) error {
		if begun++; i == 1 {
			return first
		}
		return nil
	})
	if !errors.Is(err, first) || begun != 2 {
		t.Errorf("%v after %d calls", err, begun)
	}
	ended, end := context.WithCancelCause(t.Context())
	end(first)
	if err := atonce.Try(ended, 1, []int{1}, func(context.Context, int, int) error { return nil }); !errors.Is(err, first) {
		t.Errorf("after the context ended: %v", err)
	}
}

// TestMemo: what a key has is made once, also if that failed.
func TestMemo(t *testing.T) {
	var memo atonce.Memo[string]
	var made atomic.Int64
	no := errors.New("no")
	atonce.Each(4, []string{"a", "b", "a", "b", "bad", "bad"}, func(_ int, key string) {
		got, err := memo.Get(key, func() (string, error) {
			made.Add(1)
			if key == "bad" {
				return "", no
			}
			return "made for " + key, nil
		})
		if key == "bad" && !errors.Is(err, no) || key != "bad" && got != "made for "+key {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	})
	if made.Load() != 3 {
		t.Errorf("%d were made", made.Load())
	}
}
