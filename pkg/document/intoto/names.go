package intoto

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// names is an index of subjects by name, built on first use: looking up each of
// a hundred thousand subjects must not scan them all.
type names struct {
	once  sync.Once
	order []int32 // indexes of the subjects by name; those with one name ascend
}

// of returns the indexes of the subjects with a name.
func (n *names) of(subjects []Subject, name string) []int32 {
	n.once.Do(func() {
		n.order = make([]int32, len(subjects))
		for i := range n.order {
			n.order[i] = int32(i)
		}
		slices.SortFunc(n.order, func(a, b int32) int {
			return cmp.Or(strings.Compare(subjects[a].Name, subjects[b].Name), cmp.Compare(a, b))
		})
	})
	first, _ := slices.BinarySearchFunc(n.order, name, func(i int32, name string) int { return strings.Compare(subjects[i].Name, name) })
	end := first
	for end < len(n.order) && subjects[n.order[end]].Name == name {
		end++
	}
	return n.order[first:end]
}
