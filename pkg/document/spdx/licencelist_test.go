package spdx

import (
	"slices"
	"strings"
	"testing"
)

// TestListIsSorted: the lists are as they are searched, and each of their
// identifiers is found in them.
func TestListIsSorted(t *testing.T) {
	for name, list := range map[string]string{"licences": licenceList, "exceptions": exceptionList} {
		ids := strings.Split(strings.TrimSuffix(list, "\n"), "\n")
		if len(ids) < 50 || !slices.IsSortedFunc(ids, func(x, y string) int { return strings.Compare(strings.ToLower(x), strings.ToLower(y)) }) {
			t.Errorf("%s: %d lines, or not sorted", name, len(ids))
		}
		for _, id := range ids {
			if !onList(list, id) || onList(list, id+"x") || onList(list, "") || !isID(strings.TrimSuffix(id, "+"), "", "") {
				t.Errorf("%s: %q", name, id)
			}
		}
	}
}
