//go:build unix

package journal

import "testing"

// TestOneProcessAtATime: elsewhere there are no advisory locks.
func TestOneProcessAtATime(t *testing.T) {
	path, _ := written(t, 1)
	first := open(t, path)
	if _, err := Open(path); err == nil {
		t.Error("opened twice at a time")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if err := first.Append(t.Context(), entry(1)); err == nil {
		t.Error("appended to a closed journal")
	}
}
