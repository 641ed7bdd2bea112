package order_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/order"
)

type entry struct {
	name string
	was  int
}

// TestSort: the same order as that of the library's stable sort, for lists of
// all short lengths and one that is long.
func TestSort(t *testing.T) {
	by := func(a, b entry) int { return strings.Compare(a.name, b.name) }
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 3, 5, 8, 13, 40, 5000} {
		list := make([]entry, n)
		for i := range list {
			list[i] = entry{string(rune('a' + r.IntN(7))), i}
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, by)
		order.Sort(list, by)
		if !slices.Equal(list, want) {
			t.Errorf("%d values are in another order: %v, want %v", n, list, want)
		}
	}
}
