package run

import (
	"bytes"
	"slices"
	"testing"
)

// heard keeps what it was told.
type heard struct {
	silent
	lines []string
}

func (h *heard) Said(_, line string) { h.lines = append(h.lines, line) }

// TestProgressHearsWholeLines: however a log is cut into writes, whole lines
// are told, the newest of each write, and the log has every byte.
func TestProgressHearsWholeLines(t *testing.T) {
	var log bytes.Buffer
	var h heard
	l := &listener{log: &log, step: "compile", to: &h}
	for _, part := range []string{"go: down", "loading a\ncompiling b\nlink", "", "ing c\n", "\n", "the rest"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := []string{"compiling b", "linking c", ""}; !slices.Equal(h.lines, want) {
		t.Errorf("told %q, want %q", h.lines, want)
	}
	if want := "go: downloading a\ncompiling b\nlinking c\n\nthe rest"; log.String() != want {
		t.Errorf("the log is %q", log.String())
	}
}
