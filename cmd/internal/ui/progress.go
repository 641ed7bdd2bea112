package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/estimate"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Where stderr is no terminal, a line says what runs: the first soon enough to show
// that the program is not stuck, the others for a log that is read later.
const (
	firstLine = 1500 * time.Millisecond
	everyLine = 10 * time.Second
)

// Progress shows what runs, how much of it is done, and how long the rest takes. On
// a terminal it is one line at the bottom, and text that is written through it
// appears above that line; elsewhere it is a line every ten seconds.
type Progress struct {
	w     io.Writer
	width func() int // of the terminal; nil if it is none
	clock func() time.Time

	mu      sync.Mutex // owns everything below, and what is written to w
	running []running
	said    string // the newest line of a log
	drawn   bool
	ticking bool
	next    time.Time // of a line where there is no terminal
}

type running struct {
	task  string // its name, which is "" for the only one of a command
	since time.Time
	pace  estimate.Pace
	gate.Progress
}

// NewProgress shows progress on w.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w, clock: time.Now}
	if Width(w) > 0 && !dumb() {
		p.width = func() int { return Width(w) }
	}
	return p
}

// Began shows a task.
func (p *Progress) Began(task string) { p.Update(task, gate.Progress{}) }

// Says shows what the only task of a command is doing.
func (p *Progress) Says(what string) { p.Update("", gate.Progress{What: what}) }

// Count returns a function that shows how many units of the only task are done.
func (p *Progress) Count(what, unit string) func(done, all int) {
	return func(done, all int) { p.Update("", gate.Progress{What: what, Unit: unit, Files: done, OfFiles: all}) }
}

// Update shows how far a task is. Without numbers it shows what is being done and for
// how long; with nothing done its clock starts again.
func (p *Progress) Update(task string, f gate.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	i := slices.IndexFunc(p.running, func(r running) bool { return r.task == task })
	if i < 0 {
		i, p.running = len(p.running), append(p.running, running{task: task})
	}
	r := &p.running[i]
	begins := r.since.IsZero() || r.What != f.What || f.Files == 0 && f.Bytes == 0
	if begins {
		r.since, r.pace = now, estimate.From(now)
	}
	r.Progress = f
	r.pace.Did(now, f.Files, f.Bytes)
	if !p.ticking {
		p.ticking, p.next = true, now.Add(firstLine)
		go p.tick()
	}
	if p.width != nil && (begins || f.OfFiles > 0 && f.Files == f.OfFiles) { // in between, tick draws it
		p.draw()
	}
}

// Said shows a line of a log. It is drawn at the next tick: a compiler may print
// thousands of lines in a second. A log gets none: it may be public.
func (p *Progress) Said(_, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = strings.TrimSpace(line)
}

// Ended removes a task.
func (p *Progress) Ended(task string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = slices.DeleteFunc(p.running, func(r running) bool { return r.task == task })
	p.clear()
	p.draw()
}

// Write writes lines above the line of progress.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	n, err := p.w.Write(text)
	p.draw()
	return n, err
}

// tick draws the line, or prints one when it is time, until nothing runs.
func (p *Progress) tick() {
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for range every.C {
		if !p.tock() {
			return
		}
	}
}

func (p *Progress) tock() (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ticking = len(p.running) > 0
	if now := p.clock(); p.width == nil && p.ticking && !now.Before(p.next) {
		p.next = now.Add(everyLine)
		fmt.Fprintln(p.w, render.Safe(p.text(0)))
	}
	p.draw()
	return p.ticking
}

// clear removes the line. The caller holds the mutex.
func (p *Progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// draw writes the line on a terminal. It is cut to the width, and the terminal is
// told not to wrap it if a character is wider than one place: a line that wraps
// cannot be removed. The caller holds the mutex.
func (p *Progress) draw() {
	switch {
	case len(p.running) == 0:
		p.said = ""
		return
	case p.width == nil:
		return
	}
	wide := p.width() - 1
	text := p.text(wide)
	if p.said != "" {
		text += ": " + p.said
	}
	fmt.Fprintf(p.w, "\r\x1b[?7l%s\x1b[K\x1b[?7h", cut(render.Safe(text), wide))
	p.drawn = true
}

// text says how far everything is: with less detail if it would be wider.
func (p *Progress) text(wide int) (text string) {
	now := p.clock()
	for _, bytes := range []bool{true, false} {
		parts := slice.Map(p.running, func(r running) string { return r.at(now, bytes) })
		if text = strings.Join(parts, ", "); wide == 0 || utf8.RuneCountInString(text) <= wide {
			break
		}
	}
	if len(p.running) != 1 || p.running[0].OfFiles == 0 {
		return text
	}
	room := wide - utf8.RuneCountInString(text) - len("[] ")
	for _, bar := range []int{20, 10} { // few sizes, so that it does not change with every number
		if bar <= room {
			return p.running[0].bar(bar) + " " + text
		}
	}
	return text
}

// bar draws how much is done: the smaller share of parts and bytes.
func (r running) bar(wide int) string {
	share := float64(r.Files) / float64(r.OfFiles)
	if r.OfBytes > 0 {
		share = min(share, float64(r.Bytes)/float64(r.OfBytes))
	}
	full := min(wide, int(share*float64(wide)))
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", wide-full) + "]"
}

// at says how far a task is, in parts, and in bytes too if wanted.
func (r running) at(now time.Time, bytes bool) string {
	text := r.task
	if r.What != "" {
		text = strings.TrimPrefix(r.task+": "+r.What, ": ")
	}
	if r.OfFiles > 0 {
		text += strings.TrimRight(fmt.Sprintf(" %d of %d %s", r.Files, r.OfFiles, r.Unit), " ")
	}
	if bytes && r.OfBytes > 0 {
		text += fmt.Sprintf(", %s of %s", Bytes(r.Bytes), Bytes(r.OfBytes))
	}
	left := r.pace.Left(now, r.OfFiles-r.Files, r.OfBytes-r.Bytes).Round(time.Second)
	took := now.Sub(r.since).Truncate(time.Second)
	switch {
	case left > 0 && took > 0:
		return text + ", " + left.String() + " left"
	case r.OfFiles > 0:
		return text + ", " + took.String()
	}
	return text + " " + took.String()
}

// cut keeps the beginning of a text.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}
