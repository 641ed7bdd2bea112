package config

import (
	"fmt"
	"testing"
	"time"
)

// TestPause: reconcilers that were started in one moment do not march in step,
// none lets more time go by than the file says, and each makes the same pauses
// again.
func TestPause(t *testing.T) {
	const every, passes, several = time.Minute, 200, 5
	starts := map[time.Duration]int{} // how many begin a pass at a time, to the millisecond
	shortest, longest := every, time.Duration(0)
	for i := range several {
		c := Config{Identity: fmt.Sprintf("reconciler-%d", i), Every: every}
		at := time.Duration(0)
		for n := range passes {
			p := c.pause(n)
			if p != c.pause(n) {
				t.Errorf("the pause after pass %d of %s is one or another", n, c.Identity)
			}
			shortest, longest = min(shortest, p), max(longest, p)
			at += p
			starts[at.Truncate(time.Millisecond)]++
		}
	}
	if shortest <= every/4*3 || longest > every || longest-shortest < every/5 {
		t.Errorf("pauses are from %s to %s", shortest, longest)
	}
	if together := several*passes - len(starts); together > 3 {
		t.Errorf("%d of %d passes begin in one moment with another", together, several*passes)
	}
	for _, long := range []time.Duration{time.Second, 1<<63 - 1} {
		if p := (Config{Identity: "reconciler-0", Every: long}).pause(0); p <= 0 || p > long {
			t.Errorf("every %s it waits for %s", long, p)
		}
	}
}
