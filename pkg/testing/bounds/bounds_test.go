package bounds

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// listener is a test that fails and skips for itself, and says what it failed
// of.
type listener struct {
	testing.TB
	failed  []string
	skipped bool
}

// Errorf keeps what was said.
func (l *listener) Errorf(format string, args ...any) {
	l.failed = append(l.failed, fmt.Sprintf(format, args...))
}

// Skip ends the goroutine, as any test does.
func (l *listener) Skip(...any) {
	l.skipped = true
	runtime.Goexit()
}

// hungry allocates so many bytes, a mebibyte at a time, and keeps one of them.
func hungry(bytes int) func() {
	var kept []byte
	return func() {
		for range bytes >> 20 {
			kept = make([]byte, 1<<20)
		}
		kept[0]++
	}
}

// TestOffender: who allocates more than an input may cost is caught, though
// it frees all of it again; who allocates a little less is not.
func TestOffender(t *testing.T) {
	for name, run := range map[string]func(testing.TB, func()){
		"Bounded": func(t testing.TB, do func()) { t.Helper(); Bounded(t, []byte("seven b"), do) },
		"Within":  func(t testing.TB, do func()) { t.Helper(); Within(t, 7, do) },
	} {
		caught, honest := &listener{TB: t}, &listener{TB: t}
		run(caught, hungry(maxAlloc+2<<20))
		run(honest, hungry(maxAlloc-20<<20))
		if len(honest.failed) > 0 {
			t.Errorf("%s: caught 80 MB: %q", name, honest.failed)
		}
		if watched {
			if len(caught.failed) > 0 {
				t.Errorf("%s: measures under the race detector", name)
			}
			continue
		}
		if len(caught.failed) != 1 || !strings.Contains(caught.failed[0], "7 bytes of input took") || !strings.Contains(caught.failed[0], "and 102 MB") {
			t.Errorf("%s: of an offender that took 102 MB it says %q", name, caught.failed)
		}
	}
}

// TestExcess: time alone is enough, and so is memory alone.
func TestExcess(t *testing.T) {
	for _, row := range []struct {
		cost
		want bool
	}{
		{cost{maxMoment, maxAlloc}, false},
		{cost{maxMoment + time.Nanosecond, 0}, true},
		{cost{0, maxAlloc + 1}, true},
	} {
		if row.excessive() != row.want {
			t.Errorf("%s and %d bytes: %t", row.took, row.bytes, !row.want)
		}
	}
}

// TestMeasured: what is measured is what was run, once.
func TestMeasured(t *testing.T) {
	runs := 0
	c := costOf(func() { runs++; hungry(8 << 20)() })
	if runs != 1 || c.took <= 0 || c.bytes < 8<<20 {
		t.Errorf("%d runs took %s and %d bytes", runs, c.took, c.bytes)
	}
}

// TestLarge: only a fuzzer's input may be too large.
func TestLarge(t *testing.T) {
	l, ran, done := &listener{TB: t}, 0, make(chan struct{})
	go func() {
		defer close(done)
		Bounded(l, make([]byte, MaxInput+1), func() { ran++ })
	}()
	<-done
	if !l.skipped || ran != 0 {
		t.Errorf("one byte more than is fuzzed: skipped %t, run %d times", l.skipped, ran)
	}
	Bounded(l, make([]byte, MaxInput), func() { ran++ })
	Within(l, MaxInput+1, func() { ran++ })
	if ran != 2 || len(l.failed) > 0 {
		t.Errorf("run %d times of 2: %q", ran, l.failed)
	}
}
