package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/estimate"
)

// Steps keeps a status line at the bottom of a terminal: which steps run and for
// how long, how much is done, and the newest line of a log. Text that is written
// through it appears above that line.
type Steps struct {
	w     io.Writer
	width func() int
	clock func() time.Time

	mu      sync.Mutex // owns everything below, and what is written to w
	running []running
	line    string // the newest line of a log
	drawn   bool
	ticking bool
}

type running struct {
	name      string
	since     time.Time
	done, all int // of things that are counted; both 0 for a step
	pace      estimate.Pace
}

// at says how long a step has been running, or how much is done and what is left.
func (r running) at(now time.Time) string {
	took := now.Sub(r.since).Truncate(time.Second)
	switch {
	case r.all == 0:
		return fmt.Sprintf("%s %s", r.name, took)
	case r.done == 0 || r.done == r.all:
		return fmt.Sprintf("%s %d of %d, %s", r.name, r.done, r.all, took)
	}
	return fmt.Sprintf("%s %d of %d, %s, %s left", r.name, r.done, r.all, took, r.pace.Left(now, r.all-r.done).Round(time.Second))
}

// newSteps keeps the status line on w, which must be a terminal.
func newSteps(w io.Writer, width func() int) *Steps {
	return &Steps{w: w, width: width, clock: time.Now}
}

// Began shows a step.
func (s *Steps) Began(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, running{name: step, since: s.clock()})
	if !s.ticking {
		s.ticking = true
		go s.tick()
	}
	s.draw()
}

// Counted shows how many of all things are done. done = 0 restarts the clock.
func (s *Steps) Counted(what string, done, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.running, func(r running) bool { return r.name == what })
	if i < 0 {
		i, s.running = len(s.running), append(s.running, running{name: what})
	}
	r := &s.running[i]
	if done == 0 || r.since.IsZero() {
		r.since = s.clock()
		r.pace = estimate.From(r.since)
	}
	r.pace.Did(s.clock(), done)
	r.done, r.all = done, all
	if !s.ticking {
		s.ticking = true
		go s.tick()
	}
	if done == 0 || done == all { // in between, tick draws it
		s.draw()
	}
}

// Said shows a line of a log. It is drawn at the next tick: a compiler may print
// thousands of lines in a second.
func (s *Steps) Said(_, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = strings.TrimSpace(line)
}

// Ended removes a step.
func (s *Steps) Ended(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = slices.DeleteFunc(s.running, func(r running) bool { return r.name == step })
	s.clear()
	s.draw()
}

// Write writes lines above the status line.
func (s *Steps) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	n, err := s.w.Write(p)
	s.draw()
	return n, err
}

// tick redraws the line until no step runs.
func (s *Steps) tick() {
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for range every.C {
		s.mu.Lock()
		if len(s.running) == 0 {
			s.ticking = false
			s.mu.Unlock()
			return
		}
		s.draw()
		s.mu.Unlock()
	}
}

// clear removes the line. The caller holds the mutex.
func (s *Steps) clear() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

// draw writes the line, no longer than the terminal is wide: a line that wraps
// cannot be removed. The caller holds the mutex.
func (s *Steps) draw() {
	if len(s.running) == 0 {
		s.line = ""
		return
	}
	var parts []string
	for _, r := range s.running {
		parts = append(parts, r.at(s.clock()))
	}
	text := strings.Join(parts, ", ")
	if s.line != "" {
		text += ": " + s.line
	}
	fmt.Fprintf(s.w, "\r%s\x1b[K", cut(render.Safe(text), s.width()-1))
	s.drawn = true
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
