// Package estimate estimates how long the rest of a work of many equal parts takes,
// from how fast the parts were done while they were: a long wait in between,
// such as for a service that is away, says nothing about the pace. It has no
// clock; every time is an argument.
//
//	p := estimate.From(start)
//	p.Did(now, 7)
//	left := p.Left(now, 93)
package estimate

import "time"

// lull is how long nothing must be done, at the least, to be a wait; and it is
// one only if it is so many times as long as a part usually takes.
const (
	lull  = 10 * time.Second
	times = 4
)

// Pace is how fast a work is done. The zero value has not begun.
type Pace struct {
	last   time.Time
	worked time.Duration
	done   int
}

// From begins a work.
func From(start time.Time) Pace { return Pace{last: start} }

// Did notes that so many parts are done by now, all together. Fewer than before
// are ignored.
func (p *Pace) Did(now time.Time, done int) {
	if done <= p.done {
		return
	}
	p.worked += p.since(now)
	p.last, p.done = now, done
}

// since is how much of the time since a part was last done was work: all of it,
// or what a wait begins with. Before the first part there is no measure.
func (p *Pace) since(now time.Time) time.Duration {
	gap := max(now.Sub(p.last), 0)
	if p.done == 0 {
		return gap
	}
	return min(gap, max(lull, times*p.worked/time.Duration(p.done)))
}

// Left is how long so many more parts will take; zero until one is done.
func (p *Pace) Left(now time.Time, more int) time.Duration {
	if p.done == 0 {
		return 0
	}
	return (p.worked + p.since(now)) / time.Duration(p.done) * time.Duration(more)
}
