package run

import (
	"bytes"
	"io"
)

// Progress shows the running steps. Several goroutines call it.
type Progress interface {
	// Began is called when a step starts.
	Began(step string)
	// Said is called with the newest line of a step's log, with control
	// characters escaped.
	Said(step, line string)
	// Ended is called when a step has ended, successfully or not.
	Ended(step string)
}

// silent is used if no Progress was given.
type silent struct{}

func (silent) Began(string)        {}
func (silent) Said(string, string) {}
func (silent) Ended(string)        {}

// listener reports the newest complete line that is written to a log.
type listener struct {
	log  io.Writer
	step string
	to   Progress
	rest []byte // the beginning of a line; short, because the log limits its lines
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
