// Package estimate estimates the remaining time of a task with many parts, from
// the speed while parts were being done: a long wait in between, for example for
// an unavailable service, does not count. It reads no clock; every time is an
// argument.
//
//	p := estimate.From(start)
//	p.Did(now, 7, 1<<20)
//	left := p.Left(now, 93, 5<<20)
//
// A part costs some time, and each of its bytes costs some more. Both costs are
// fitted to what was done so far, by least squares. As long as they cannot be told
// apart, the estimate is the longer of those by parts alone and by bytes alone.
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

// sample is the shortest time that makes a row of the fit.
const sample = time.Second / 4

// Pace is the speed of a task. The zero value has not started.
type Pace struct {
	last    time.Time
	worked  time.Duration
	done    work
	sampled work    // what the rows of the fit cover
	seconds float64 // of the rows
	// Sums over the rows of products of parts (p), bytes (b) and seconds (s).
	pp, pb, bb, ps, bs float64
}

type work struct{ parts, bytes float64 }

// at is the time for the work, at a cost of each part and of each byte.
func (w work) at(cost work) float64 { return w.parts*cost.parts + w.bytes*cost.bytes }

// From starts a task.
func From(start time.Time) Pace { return Pace{last: start} }

// Did records the total numbers of parts and of bytes done by now; 0 bytes if only
// parts are counted. Lower numbers than before are ignored.
func (p *Pace) Did(now time.Time, parts int, bytes int64) {
	done := work{max(p.done.parts, float64(parts)), max(p.done.bytes, float64(bytes))}
	if done == p.done {
		return
	}
	p.worked += p.since(now)
	p.last, p.done = now, done
	row, s := work{done.parts - p.sampled.parts, done.bytes - p.sampled.bytes}, p.worked.Seconds()-p.seconds
	if s < sample.Seconds() {
		return
	}
	p.sampled, p.seconds = done, p.worked.Seconds()
	p.pp, p.pb, p.bb = p.pp+row.parts*row.parts, p.pb+row.parts*row.bytes, p.bb+row.bytes*row.bytes
	p.ps, p.bs = p.ps+row.parts*s, p.bs+row.bytes*s
}

// since is how much of the time since the last part was work: all of it, or
// only the beginning of a wait. Before the first part there is no measure.
func (p *Pace) since(now time.Time) time.Duration {
	gap := max(now.Sub(p.last), 0)
	if p.done.parts == 0 {
		return gap
	}
	return min(gap, max(lull, time.Duration(times*float64(p.worked)/p.done.parts)))
}

// costs are the possible costs, up to a factor: one if the fit tells parts and bytes
// apart. No cost is negative.
func (p *Pace) costs() []work {
	byParts, byBytes := work{parts: 1}, work{bytes: 1}
	det := p.pp*p.bb - p.pb*p.pb
	if det <= p.pp*p.bb/100 {
		return []work{byParts, byBytes}
	}
	cost := work{(p.ps*p.bb - p.bs*p.pb) / det, (p.bs*p.pp - p.ps*p.pb) / det}
	switch {
	case cost.parts < 0:
		return []work{byBytes}
	case cost.bytes < 0:
		return []work{byParts}
	}
	return []work{cost}
}

// Left is the estimated time for that many more parts and bytes; zero until
// something is done.
func (p *Pace) Left(now time.Time, parts int, bytes int64) (left time.Duration) {
	more := work{float64(parts), float64(bytes)}
	for _, cost := range p.costs() {
		if did := p.done.at(cost); did > 0 {
			left = max(left, time.Duration(float64(p.worked+p.since(now))*more.at(cost)/did))
		}
	}
	return left
}
