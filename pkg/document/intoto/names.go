package intoto

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// few is how many subjects are looked through one after another.
const few = 32

// names finds subjects by their names, from the first time that somebody asks:
// whoever asks for each of a hundred thousand shall not look through all.
type names struct {
	once  sync.Once
	order []int32 // the places of the subjects, by name; those of one name ascend
}

// of are the places of the subjects of a name.
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
