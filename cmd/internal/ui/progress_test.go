package ui

import (
	"bytes"
	"testing"
	"time"
)

// TestProgress: counts, bytes, and how long the rest will take; the line is
// redrawn ten times a second at most, and gone at the end.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	p := &Progress{w: &out, verb: "hashing", clock: func() time.Time { return now }}
	shows := func(f Far, want string) {
		t.Helper()
		p.Update(f)
		if got := screen(out.String()); got != want {
			t.Errorf("the screen shows %q, want %q", got, want)
		}
	}
	shows(Far{1 << 20, 10 << 20, 0, 3}, "hashing 0 of 3 files, 1.0 MiB of 10.0 MiB")
	now = now.Add(50 * time.Millisecond)
	shows(Far{2 << 20, 10 << 20, 1, 3}, "hashing 0 of 3 files, 1.0 MiB of 10.0 MiB")
	now = now.Add(2 * time.Second)
	shows(Far{4 << 20, 10 << 20, 1, 3}, "hashing 1 of 3 files, 4.0 MiB of 10.0 MiB, 3s left")
	shows(Far{10 << 20, 10 << 20, 3, 3}, "")
}
