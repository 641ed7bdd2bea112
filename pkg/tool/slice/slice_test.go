package slice

import (
	"slices"
	"strconv"
	"testing"
)

func TestLists(t *testing.T) {
	numbers := []int{3, 1, 2, 3}
	if got, want := Map(numbers, strconv.Itoa), []string{"3", "1", "2", "3"}; !slices.Equal(got, want) {
		t.Errorf("Map = %q, want %q", got, want)
	}
	if got, want := Filter(numbers, func(n int) bool { return n > 1 }), []int{3, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("Filter = %v, want %v", got, want)
	}
	if got, want := Unique(numbers), []int{1, 2, 3}; !slices.Equal(got, want) || numbers[0] != 3 {
		t.Errorf("Unique = %v, want %v, and the list itself unchanged: %v", got, want, numbers)
	}
	if got, none := First(numbers, func(n int) bool { return n < 3 }), First(numbers, func(n int) bool { return n > 3 }); got != 1 || none != 0 {
		t.Errorf("First = %d and %d, want 1 and the zero value", got, none)
	}
	// Encoders distinguish nil from an empty list.
	if Map([]int{}, strconv.Itoa) != nil || Filter(numbers, func(int) bool { return false }) != nil || Unique([]int{}) != nil {
		t.Error("a list without elements is not nil")
	}
}
