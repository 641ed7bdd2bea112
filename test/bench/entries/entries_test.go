package entries

import (
	"bytes"
	"testing"
)

// TestFollow: a log of several tiles, the last of which is not full, is followed to its
// end, and one entry is found in it.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	const n = 600
	if err := Make(t.Context(), dir, n); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := Follow(t.Context(), &said, dir, n); err != nil || said.Len() == 0 {
		t.Error(err)
	}
	if err := Hash(t.Context(), &said, dir, n); err != nil {
		t.Error(err)
	}
	if Follow(t.Context(), &said, dir, n+2) == nil {
		t.Error("the twin: another entry was expected, and found")
	}
}
