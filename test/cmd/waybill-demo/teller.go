package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/waybill-release/waybill/test/scene"
)

// shown is how many lines of one command's output are shown.
const shown = 24

// teller prints the story: what happens, why it matters, the command, what it
// says.
type teller struct {
	w     io.Writer
	start time.Time
	quiet bool
	whole bool // show all lines of an output
	runs  int
}

func (t *teller) title(s string) {
	fmt.Fprintf(t.w, "\n── %s %s\n", s, strings.Repeat("─", max(2, 74-len(s))))
}

func (t *teller) say(s string) { fmt.Fprintf(t.w, "\n%s\n", s) }

// show prints one command and what it said.
func (t *teller) show(r scene.Result) {
	t.runs++
	if t.quiet {
		return
	}
	fmt.Fprintf(t.w, "\n$ %s\n", wrap(r.String()))
	t.lines(r.Stderr)
	t.lines(r.Stdout)
	fmt.Fprintf(t.w, "  (exit %d)\n", r.Code)
}

func (t *teller) lines(s string) {
	s = strings.TrimRight(s, "\n")
	if s == "" {
		return
	}
	lines, shown := strings.Split(s, "\n"), shown
	if t.whole {
		shown = len(lines) + 4
	}
	for i, line := range lines {
		if i == shown-4 && len(lines) > shown {
			fmt.Fprintf(t.w, "  … %d more lines …\n", len(lines)-shown)
		}
		if i >= shown-4 && i < len(lines)-4 && len(lines) > shown {
			continue
		}
		fmt.Fprintf(t.w, "  %s\n", line)
	}
}

func (t *teller) ending(keep string) error {
	t.title("The end")
	fmt.Fprintf(t.w, "\nOne release made, published and verified; six attacks refused, each for its own\nreason; %d commands in %s. Nothing is left running.\n", t.runs, time.Since(t.start).Round(100*time.Millisecond))
	if keep == "" {
		fmt.Fprintln(t.w, "\nTo do it by hand: `make demo KEEP=DIR` leaves the scene in DIR; then\n`bin/waybill-lab up --dir DIR/lab` brings its world back, and the commands above\nthat only read work in DIR.")
		return nil
	}
	fmt.Fprintf(t.w, "\nThe scene is in %s. `bin/waybill-lab up --dir %s/lab` brings its world back;\nthen the commands above that only read work there.\n", keep, keep)
	return nil
}

// wrap breaks a long command at its flags, as it can be pasted.
func wrap(s string) string {
	const width = 90
	var b strings.Builder
	length := 0
	for i, word := range strings.Split(s, " ") {
		if i > 0 {
			if length+len(word) > width && strings.HasPrefix(word, "--") {
				b.WriteString(" \\\n    ")
				length = 4
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString(word)
		length += len(word) + 1
	}
	return b.String()
}
