// Package estimate estimates the remaining time of a task with many equal
// parts, from the speed while parts were being done: a long wait in between,
// for example for an unavailable service, does not count. It reads no clock;
// every time is an argument.
//
//	p := estimate.From(start)
//	p.Did(now, 7)
//	left := p.Left(now, 93)
//
// Other projects should not import this package: it changes without notice.
package estimate

import "time"

// lull is the shortest pause that counts as a wait. A pause must also be this
// many times longer than a part usually takes.
const (
	lull  = 10 * time.Second
	times = 4
)

// Pace is the speed of a task. The zero value has not started.
type Pace struct {
	last   time.Time
	worked time.Duration
	done   int
}

// From starts a task.
func From(start time.Time) Pace { return Pace{last: start} }

// Did records the total number of parts done by now. A lower number than before
// is ignored.
func (p *Pace) Did(now time.Time, done int) {
	if done <= p.done {
		return
	}
	p.worked += p.since(now)
	p.last, p.done = now, done
}

// since is how much of the time since the last part was work: all of it, or
// only the beginning of a wait. Before the first part there is no measure.
func (p *Pace) since(now time.Time) time.Duration {
	gap := max(now.Sub(p.last), 0)
	if p.done == 0 {
		return gap
	}
	return min(gap, max(lull, times*p.worked/time.Duration(p.done)))
}

// Left is the estimated time for that many more parts; zero until one is done.
func (p *Pace) Left(now time.Time, more int) time.Duration {
	if p.done == 0 {
		return 0
	}
	return (p.worked + p.since(now)) / time.Duration(p.done) * time.Duration(more)
}
