// Package slice makes lists, sets and counts from lists, as package slices does
// not.
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

// Count returns how many elements match accepts.
func Count[E any](list []E, match func(E) bool) (n int) {
	for _, e := range list {
		if match(e) {
			n++
		}
	}
	return n
}

// Set returns the keys of all elements; it is never nil.
func Set[E any, K comparable](list []E, key func(E) K) map[K]bool {
	keys := make(map[K]bool, len(list))
	for _, e := range list {
		keys[key(e)] = true
	}
	return keys
}

// By returns the elements by their keys, of several with one key the last; it
// is never nil.
func By[E any, K comparable](list []E, key func(E) K) map[K]E {
	by := make(map[K]E, len(list))
	for _, e := range list {
		by[key(e)] = e
	}
	return by
}

// Check returns the first error that check returns for an element.
func Check[E any](list []E, check func(E) error) error {
	for _, e := range list {
		if err := check(e); err != nil {
			return err
		}
	}
	return nil
}

// Unique returns the elements of a list, sorted and each once.
func Unique[E cmp.Ordered](list []E) []E {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}
