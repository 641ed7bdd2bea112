// Package ui holds the rules of the terminal:
//
//   - results go to stdout, messages and progress to stderr;
//   - a message says what is happening, and to how much;
//   - a line is redrawn only if stderr is a terminal;
//   - with --log-format json, each line of stderr is one JSON object with the
//     trace ids of the action that it is about.
package ui

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress redraws one line on a terminal with the progress of a long read.
type Progress struct {
	w     io.Writer
	verb  string
	clock func() time.Time
	mu    sync.Mutex // guards began, last and w
	began time.Time
	last  time.Time
}

// Far is how much was read, and how much there is.
type Far struct {
	Bytes, OfBytes int64
	Files, OfFiles int
}

// NewProgress makes a progress line on w, which must be a terminal.
func NewProgress(w io.Writer, verb string) *Progress {
	return &Progress{w: w, verb: verb, clock: time.Now}
}

// Update shows the progress, at most ten times a second, with an estimate of the
// remaining time. At the end it removes the line.
func (p *Progress) Update(f Far) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	if p.began.IsZero() {
		p.began = now
	}
	switch {
	case f.Files >= f.OfFiles:
		fmt.Fprint(p.w, "\r\x1b[K")
	case now.Sub(p.last) >= 100*time.Millisecond:
		p.last = now
		fmt.Fprintf(p.w, "\r%s %d of %d files, %s of %s%s\x1b[K", p.verb, f.Files, f.OfFiles, Bytes(f.Bytes), Bytes(f.OfBytes), left(f, now.Sub(p.began)))
	}
}

// left is the estimate of the remaining time; empty in the first second.
func left(f Far, since time.Duration) string {
	if since < time.Second || f.Bytes <= 0 || f.Bytes >= f.OfBytes {
		return ""
	}
	rest := time.Duration(float64(since) * float64(f.OfBytes-f.Bytes) / float64(f.Bytes))
	return fmt.Sprintf(", %s left", rest.Round(time.Second))
}

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
