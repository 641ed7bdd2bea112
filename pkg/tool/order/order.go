// Package order sorts lists of large values.
//
// [slices.SortFunc] is compiled again for each type that it sorts, to some 10
// to 25 kB for a type with many fields. This package sorts the indexes of a
// list instead, with the same code for all types, and moves each value once.
// The downstream verifier has a size limit; lists of pointers, strings and
// numbers do not need this.
//
//	order.Sort(artifacts, func(a, b Artifact) int { return strings.Compare(a.Name, b.Name) })
//
// Other projects should not import this package: it changes without notice.
package order

import (
	"cmp"
	"slices"
)

// Sort sorts a list. Equal elements keep their order.
func Sort[E any](list []E, compare func(a, b E) int) {
	sorted := make([]E, len(list))
	for to, from := range places(len(list), func(i, j int) int { return compare(list[i], list[j]) }) {
		sorted[to] = list[from]
	}
	copy(list, sorted)
}

// places returns the indexes of the elements in sorted order.
func places(n int, compare func(i, j int) int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(i, j int) int { return cmp.Or(compare(i, j), i-j) })
	return all
}
