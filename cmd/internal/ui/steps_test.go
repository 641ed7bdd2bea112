package ui

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// screen is what a terminal shows after it was written to.
func screen(written string) string {
	var lines []string
	for _, text := range strings.Split(strings.ReplaceAll(written, "\x1b[K", "\v"), "\n") {
		var line []rune
		at := 0
		for _, r := range text {
			switch {
			case r == '\r':
				at = 0
			case r == '\v': // to the end of the line there is nothing more
				line = line[:at]
			case at < len(line):
				line[at] = r
				at++
			default:
				line = append(line, r)
				at++
			}
		}
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n")
}

// TestStepsKeepOneLine: lines of conversation stand above the line of what
// runs, which is gone when nothing does, and is never wider than the terminal.
func TestStepsKeepOneLine(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	width := 60
	s := &Steps{w: &out, width: func() int { return width }, clock: func() time.Time { return now }, ticking: true}
	s.Began("compile-linux-amd64")
	now = now.Add(12 * time.Second)
	s.Said("compile-linux-amd64", "  example.test/lantern\n")
	s.Began("pack")
	if got, want := screen(out.String()), "compile-linux-amd64 12s, pack 0s: example.test/lantern"; got != want {
		t.Errorf("the screen shows %q, want %q", got, want)
	}
	if _, err := s.Write([]byte("step 1 of 2: pack, done in 1s\n")); err != nil {
		t.Fatal(err)
	}
	s.Ended("pack")
	if got, want := screen(out.String()), "step 1 of 2: pack, done in 1s\ncompile-linux-amd64 12s: example.test/lantern"; got != want {
		t.Errorf("the screen shows %q, want %q", got, want)
	}
	width = 20
	s.Said("compile-linux-amd64", "a name with \x1b[31mcolour and no end that would fit")
	_, _ = s.Write(nil)
	last := screen(out.String())
	last = last[strings.LastIndexByte(last, '\n')+1:]
	if n := utf8.RuneCountInString(last); n != width-1 || !strings.HasSuffix(last, "…") {
		t.Errorf("the line %q has %d places of %d", last, n, width)
	}
	s.Ended("compile-linux-amd64")
	if got, want := screen(out.String()), "step 1 of 2: pack, done in 1s\n"; got != want {
		t.Errorf("the screen shows %q at the end, want %q", got, want)
	}
}

// TestStepsCount: what is counted shows how many, and when it will be done.
func TestStepsCount(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	s := &Steps{w: &out, width: func() int { return 80 }, clock: func() time.Time { return now }, ticking: true}
	shows := func(want string) {
		t.Helper()
		if _, err := s.Write(nil); err != nil {
			t.Fatal(err)
		}
		if got := screen(out.String()); got != want {
			t.Errorf("the screen shows %q, want %q", got, want)
		}
	}
	s.Counted("sign", 0, 500)
	shows("sign 0 of 500, 0s")
	now = now.Add(10 * time.Second)
	s.Counted("sign", 100, 500)
	shows("sign 100 of 500, 10s, 40s left")
	now = now.Add(time.Hour) // the log is away
	s.Counted("sign", 101, 500)
	now = now.Add(10 * time.Second)
	s.Counted("sign", 200, 500)
	shows("sign 200 of 500, 1h0m20s, 45s left")
	s.Counted("sign", 0, 20) // another list, from its own beginning
	shows("sign 0 of 20, 0s")
	now = now.Add(time.Second)
	s.Counted("sign", 20, 20)
	shows("sign 20 of 20, 1s")
	s.Ended("sign")
	shows("")
}
