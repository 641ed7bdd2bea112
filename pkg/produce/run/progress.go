package run

import (
	"bytes"
	"io"
	"sync"
)

// Progress is shown how the steps get on that are running. It is called by one
// step at a time.
type Progress interface {
	// Began is told that a step runs now.
	Began(step string)
	// Said is told the newest line of a step's log, made harmless.
	Said(step, line string)
	// Ended is told that a step has ended, well or not.
	Ended(step string)
}

// nobody is who watches where no Progress was given.
type nobody struct{}

func (nobody) Began(string)        {}
func (nobody) Said(string, string) {}
func (nobody) Ended(string)        {}

func oneAtATime(p Progress) Progress {
	if p == nil {
		return nobody{}
	}
	return &shared{to: p}
}

// shared keeps steps that run at the same time from talking at once.
type shared struct {
	mu sync.Mutex
	to Progress
}

func (s *shared) Began(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.Began(step)
}

func (s *shared) Said(step, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.Said(step, line)
}

func (s *shared) Ended(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.Ended(step)
}

// listener tells the newest whole line of what is written to a log.
type listener struct {
	log  io.Writer
	step string
	to   Progress
	rest []byte // the beginning of a line; never long, for the log's lines are bounded
}

// Write implements [io.Writer].
func (l *listener) Write(p []byte) (int, error) {
	n, err := l.log.Write(p)
	l.rest = append(l.rest, p[:n]...)
	if end := bytes.LastIndexByte(l.rest, '\n'); end >= 0 {
		begin := bytes.LastIndexByte(l.rest[:end], '\n') + 1
		l.to.Said(l.step, string(l.rest[begin:end]))
		l.rest = append(l.rest[:0], l.rest[end+1:]...)
	}
	return n, err
}
