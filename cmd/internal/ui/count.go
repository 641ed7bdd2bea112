package ui

import (
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/waybill-release/waybill/pkg/tool/estimate"
)

// everyLine is how often a count is printed where stderr is no terminal.
const everyLine = 30 * time.Second

// Count prints how many parts of a long task are done: on a terminal in one line
// that is redrawn, elsewhere in a line every half minute.
type Count struct {
	w     io.Writer
	what  string // "images"
	eyes  bool
	clock func() time.Time

	mu   sync.Mutex // guards the rest, and w
	pace estimate.Pace
	last time.Time
}

// NewCount makes a count; what names the parts, such as "images".
func NewCount(w io.Writer, what string) *Count {
	file, is := w.(interface{ Fd() uintptr })
	c := &Count{w: w, what: what, eyes: is && term.IsTerminal(int(file.Fd())), clock: time.Now}
	c.last = c.clock()
	c.pace = estimate.From(c.last)
	return c
}

// Update prints the count, and an estimate of the remaining time.
func (c *Count) Update(done, of int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.pace.Did(now, done)
	every := everyLine
	if c.eyes {
		every = 100 * time.Millisecond
	}
	switch {
	case done >= of && c.eyes:
		fmt.Fprint(c.w, "\r\x1b[K")
		return
	case now.Sub(c.last) < every:
		return
	}
	c.last = now
	line := fmt.Sprintf("%d of %d %s", done, of, c.what)
	if rest := c.pace.Left(now, of-done).Round(time.Second); rest > 0 {
		line += fmt.Sprintf(", %s left", rest)
	}
	if c.eyes {
		fmt.Fprintf(c.w, "\r%s\x1b[K", line)
		return
	}
	fmt.Fprintln(c.w, line)
}
