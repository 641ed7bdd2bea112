package unpack

import (
	"errors"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestAltogether: archives inside of one are each within bounds and not
// together; archives that lie beside each other bring their own bytes.
func TestAltogether(t *testing.T) {
	inside := func(outer int64, inner ...int64) error {
		w := New()
		return w.enter(func() error {
			w.outermost(&counting{n: outer})
			for _, n := range inner {
				if err := w.enter(func() error {
					w.outermost(&counting{n: 1 << 40})
					return w.expand(n)
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	const piece = 60 << 20
	many := make([]int64, freeAltogether/piece+1)
	for i := range many {
		many[i] = piece
	}
	var refused *verdict.Error
	if err := inside(1000, many...); !errors.As(err, &refused) || refused.Finding.Code != verdict.Limit {
		t.Errorf("many bombs in one archive: %v", err)
	}
	for name, err := range map[string]error{
		"one less of them":           inside(1000, many[1:]...),
		"as many in a larger one":    inside(1<<20, many...),
		"the same beside each other": beside(len(many), piece),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// beside walks archives one after another.
func beside(n int, piece int64) error {
	w := New()
	for range n {
		if err := w.enter(func() error {
			w.outermost(&counting{n: piece / maxRatio})
			return w.expand(piece)
		}); err != nil {
			return err
		}
	}
	return nil
}
