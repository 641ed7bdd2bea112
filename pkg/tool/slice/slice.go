// Package slice makes lists from other lists, as package slices does not.
//
//	names := slice.Map(files, func(f File) string { return f.Name })
//
// Other projects should not import this package: it changes without notice.
package slice

import (
	"cmp"
	"slices"
)

// Map returns what f returns for each element; nil for an empty list.
func Map[E, R any](list []E, f func(E) R) (made []R) {
	made = slices.Grow(made, len(list))
	for _, e := range list {
		made = append(made, f(e))
	}
	return made
}

// Filter returns the elements that keep accepts; nil if it accepts none.
func Filter[E any](list []E, keep func(E) bool) (kept []E) {
	for _, e := range list {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// First returns the first element that match accepts; the zero value if it
// accepts none.
func First[E any](list []E, match func(E) bool) (first E) {
	if i := slices.IndexFunc(list, match); i >= 0 {
		first = list[i]
	}
	return first
}

// Unique returns the elements of a list, sorted and each once.
func Unique[E cmp.Ordered](list []E) []E {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}
