// Package ui holds the rules of the terminal:
//
//   - results go to stdout, messages and progress to stderr;
//   - a message says what is happening, and to how much;
//   - a line is redrawn only if stderr is a terminal, and is never wider than it;
//     elsewhere what lasts is a line every ten seconds;
//   - with --log-format json, each line of stderr is one JSON object with the
//     trace ids of the action that it is about.
package ui

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Bytes prints a size for people.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, exp := float64(n)/unit, 0
	for value >= unit && exp < 4 {
		value /= unit
		exp++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[exp])
}

// plainWidth is the assumed width of a terminal that does not report one.
const plainWidth = 80

// terminal is a file that may be a terminal.
type terminal interface {
	io.Writer
	Fd() uintptr
}

// Width is the width of the terminal w; 0 if it is no terminal, where lines may
// have any length.
func Width(w io.Writer) int {
	f, is := w.(terminal)
	if !is || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 1 {
		return plainWidth
	}
	return width
}

// Colored reports whether text on w is colored: mode is always, never, or else auto,
// which is a terminal with colors whose user did not refuse them (no-color.org).
func Colored(w io.Writer, mode string) bool {
	switch mode {
	case "always", "never":
		return mode == "always"
	}
	return Width(w) > 0 && os.Getenv("NO_COLOR") == "" && !dumb()
}

// dumb reports whether the terminal has neither colors nor a cursor to move.
func dumb() bool { return os.Getenv("TERM") == "dumb" }
