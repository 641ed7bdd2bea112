package ui

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/gate"
)

// screen is what a terminal shows after it was written to.
func screen(written string) string {
	var lines []string
	written = strings.NewReplacer("\x1b[K", "\v", "\x1b[?7l", "", "\x1b[?7h", "").Replace(written)
	for _, text := range strings.Split(written, "\n") {
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

// watched is a progress on a terminal of a width, 0 for none, with a clock.
type watched struct {
	*Progress
	t     *testing.T
	out   bytes.Buffer
	now   time.Time
	width int
}

func watch(t *testing.T, width int) *watched {
	w := &watched{t: t, now: time.Unix(1000, 0), width: width}
	w.Progress = &Progress{w: &w.out, clock: func() time.Time { return w.now }, ticking: true}
	if width > 0 {
		w.Progress.width = func() int { return w.width }
	}
	return w
}

// shows compares the last line of the screen, and its width.
func (w *watched) shows(want string) {
	w.t.Helper()
	if _, err := w.Write(nil); err != nil {
		w.t.Fatal(err)
	}
	got := screen(w.out.String())
	got = got[strings.LastIndexByte(got, '\n')+1:]
	if got != want || utf8.RuneCountInString(got) >= w.width {
		w.t.Errorf("the screen shows %q, want %q", got, want)
	}
}

// TestProgress: counts, bytes, a bar and how long the rest will take, as far as the
// terminal is wide enough; gone at the end.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		width         int
		begin, middle string
	}{
		{80, "[--------------------] hashing 0 of 3 files, 1.0 MiB of 10.0 MiB, 0s", "[######--------------] hashing 1 of 3 files, 4.0 MiB of 10.0 MiB, 4s left"},
		{60, "[----------] hashing 0 of 3 files, 1.0 MiB of 10.0 MiB, 0s", "hashing 1 of 3 files, 4.0 MiB of 10.0 MiB, 4s left"},
		{40, "[----------] hashing 0 of 3 files, 0s", "hashing 1 of 3 files, 4s left"},
		{20, "hashing 0 of 3 fil…", "hashing 1 of 3 fil…"},
	} {
		w := watch(t, c.width)
		w.Update("", gate.Progress{What: "hashing", Unit: "files", Bytes: 1 << 20, OfBytes: 10 << 20, OfFiles: 3})
		w.shows(c.begin)
		w.now = w.now.Add(2 * time.Second)
		w.Update("", gate.Progress{What: "hashing", Unit: "files", Bytes: 4 << 20, OfBytes: 10 << 20, Files: 1, OfFiles: 3})
		w.shows(c.middle)
		w.Ended("")
		w.shows("")
	}
}

// TestStepsKeepOneLine: lines of conversation stand above the line of what
// runs, which is gone when nothing does, and is never wider than the terminal.
func TestStepsKeepOneLine(t *testing.T) {
	w := watch(t, 60)
	w.Began("compile-linux-amd64")
	w.now = w.now.Add(12 * time.Second)
	w.Said("compile-linux-amd64", "  example.test/lantern\n")
	w.Began("pack")
	w.shows("compile-linux-amd64 12s, pack 0s: example.test/lantern")
	if _, err := w.Write([]byte("step 1 of 2: pack, done in 1s\n")); err != nil {
		t.Fatal(err)
	}
	w.Ended("pack")
	if got, want := screen(w.out.String()), "step 1 of 2: pack, done in 1s\ncompile-linux-amd64 12s: example.test/lantern"; got != want {
		t.Errorf("the screen shows %q, want %q", got, want)
	}
	w.width = 20
	w.Said("compile-linux-amd64", "a name with \x1b[31mcolour and no end that would fit")
	w.shows("compile-linux-amd6…")
	w.width = 40
	w.shows("compile-linux-amd64 12s: a name with \ufffd…")
	w.Ended("compile-linux-amd64")
	if got, want := screen(w.out.String()), "step 1 of 2: pack, done in 1s\n"; got != want {
		t.Errorf("the screen shows %q at the end, want %q", got, want)
	}
}

// TestCount: what is counted shows how many, and when it will be done; a wait does
// not count, and the next list begins anew.
func TestCount(t *testing.T) {
	w := watch(t, 40)
	count := func(done, all int) { w.Update("sign", gate.Progress{Files: done, OfFiles: all}) }
	count(0, 500)
	w.shows("[----------] sign 0 of 500, 0s")
	w.now = w.now.Add(10 * time.Second)
	count(100, 500)
	w.shows("[##--------] sign 100 of 500, 40s left")
	w.now = w.now.Add(time.Hour) // the log is away
	count(101, 500)
	w.now = w.now.Add(10 * time.Second)
	count(200, 500)
	w.shows("[####------] sign 200 of 500, 45s left")
	count(0, 20)
	w.shows("[--------------------] sign 0 of 20, 0s")
	w.now = w.now.Add(time.Second)
	count(20, 20)
	w.shows("[##########] sign 20 of 20, 1s")
	w.Ended("sign")
	w.shows("")
}

// TestNoTerminal: in a log there is a first line soon, then one every ten seconds
// while something runs, and nothing about what took no time.
func TestNoTerminal(t *testing.T) {
	w := watch(t, 0)
	w.Says("reading the manifest")
	w.next = w.now.Add(firstLine)
	for i := range 25 {
		w.now = w.now.Add(time.Second)
		if i >= 4 {
			w.Update("", gate.Progress{What: "hashing", Unit: "files", Bytes: int64(i), OfBytes: 100, Files: i, OfFiles: 100})
		}
		w.Said("", "a line of a compiler")
		w.tock()
	}
	w.Ended("")
	w.now = w.now.Add(time.Minute)
	if w.tock() {
		t.Error("it goes on after the end")
	}
	const want = "reading the manifest 2s\nhashing 11 of 100 files, 11 B of 100 B, 57s left\nhashing 21 of 100 files, 21 B of 100 B, 1m4s left\n"
	if got := w.out.String(); got != want {
		t.Errorf("%q", got)
	}
}

// TestColored: what the user says counts, and a file is not colored.
func TestColored(t *testing.T) {
	for mode, want := range map[string]bool{"always": true, "never": false, "auto": false, "": false} {
		if got := Colored(&bytes.Buffer{}, mode); got != want {
			t.Errorf("%q: %t", mode, got)
		}
	}
}
