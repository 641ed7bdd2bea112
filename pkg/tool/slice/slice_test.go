package slice

import (
	"errors"
	"maps"
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
	odd := func(n int) bool { return n%2 == 1 }
	if got := Count(numbers, odd); got != 3 {
		t.Errorf("Count = %d odd numbers, want 3", got)
	}
	if got, want := Set(numbers, strconv.Itoa), map[string]bool{"1": true, "2": true, "3": true}; !maps.Equal(got, want) {
		t.Errorf("Set = %v, want %v", got, want)
	}
	if got, want := By(numbers, odd), map[bool]int{true: 3, false: 2}; !maps.Equal(got, want) {
		t.Errorf("By = %v, want %v: the last of several", got, want)
	}
	// Encoders distinguish nil from an empty list.
	if Map([]int{}, strconv.Itoa) != nil || Filter(numbers, func(int) bool { return false }) != nil || Unique([]int{}) != nil {
		t.Error("a list without elements is not nil")
	}
}

func TestCheckStopsAtTheFirstError(t *testing.T) {
	bad, asked := errors.New("bad"), 0
	check := func(n int) error {
		if asked++; n == 0 {
			return bad
		}
		return nil
	}
	if err := Check([]int{1, 0, 2}, check); !errors.Is(err, bad) || asked != 2 {
		t.Errorf("Check = %v after %d calls, want %v after 2", err, asked, bad)
	}
	if err := Check([]int{1, 2}, check); err != nil {
		t.Errorf("Check = %v, want no error", err)
	}
}
