// Package order sorts lists of large values.
//
// [slices.SortFunc] is compiled anew for each type that it sorts, into some
// 10 to 25 kB for a type of many fields. Here the places of a list are sorted
// instead, by one piece of code for all types, and each value moves once. The
// downstream verifier has a bound on its size; lists of pointers, words and
// numbers do not need this.
//
//	order.Sort(artifacts, func(a, b Artifact) int { return strings.Compare(a.Name, b.Name) })
package order

import (
	"cmp"
	"slices"
)

// Sort sorts a list. What compares as the same keeps its order.
func Sort[E any](list []E, compare func(a, b E) int) {
	sorted := make([]E, len(list))
	for to, from := range places(len(list), func(i, j int) int { return compare(list[i], list[j]) }) {
		sorted[to] = list[from]
	}
	copy(list, sorted)
}

// places says which value comes first, second and so on.
func places(n int, compare func(i, j int) int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(i, j int) int { return cmp.Or(compare(i, j), i-j) })
	return all
}
