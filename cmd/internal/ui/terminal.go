package ui

import (
	"io"

	"golang.org/x/term"
)

// plainWidth is the assumed width of a terminal that does not report one.
const plainWidth = 80

// terminal is a file that may be a terminal.
type terminal interface {
	io.Writer
	Fd() uintptr
}

// OnTerminal shows steps on w, if that is a terminal.
func OnTerminal(w io.Writer) (*Steps, bool) {
	f, is := w.(terminal)
	if !is || !term.IsTerminal(int(f.Fd())) {
		return nil, false
	}
	return newSteps(f, func() int { return Width(f) }), true
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
