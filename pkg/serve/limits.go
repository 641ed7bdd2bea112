package serve

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// slots bound how many requests are processed, and how many wait.
type slots struct{ work, room chan struct{} }

func newSlots(atOnce, queue int) slots {
	return slots{work: make(chan struct{}, atOnce), room: make(chan struct{}, atOnce+queue)}
}

// enter waits for a slot. If too many wait already it refuses at once.
func (s slots) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.room <- struct{}{}:
	default:
		return nil, errBusy()
	}
	select {
	case s.work <- struct{}{}:
		return func() { <-s.work; <-s.room }, nil
	case <-ctx.Done():
		<-s.room
		return nil, errBusy()
	}
}

// shares bound how much of a resource one key may use at a time.
type shares struct {
	most int
	mu   sync.Mutex // guards all fields
	all  map[string]*share
}

// share is the use of one key; it is removed when unused.
type share struct {
	room  chan struct{}
	users int
}

// enter waits for room, or refuses when ctx ends first.
func (s *shares) enter(ctx context.Context, key string) (leave func(), err error) {
	one := s.use(key)
	leave = func() { <-one.room; s.release(key, one) }
	select {
	case one.room <- struct{}{}:
		return leave, nil
	default:
	}
	select {
	case one.room <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		s.release(key, one)
		return nil, errBusy()
	}
}

// tryEnter refuses at once if there is no room.
func (s *shares) tryEnter(key string) (leave func(), err error) {
	over, stop := context.WithCancel(context.Background())
	stop()
	return s.enter(over, key)
}

func (s *shares) use(key string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[key]
	if one == nil {
		if s.all == nil {
			s.all = map[string]*share{}
		}
		one = &share{room: make(chan struct{}, max(1, s.most))}
		s.all[key] = one
	}
	one.users++
	return one
}

func (s *shares) release(key string, one *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(s.all, key)
	}
}

// bodyRoom bounds the requests whose body is read at a time: each may take up
// to [Limits.Body] bytes.
const bodyRoom = 64

// askLater is the act for a request beyond a limit.
const askLater = "nothing was decided; retry after the time in Retry-After"

func errBusy() error {
	return verdict.Refuse(verdict.Busy, "gate", "the gate is overloaded").Advise(askLater)
}

// burst is how many seconds' worth of its rate a caller may use at once.
const burst = 10

// batch is how many decisions a request may contain: no more than a burst,
// which a caller could never exceed by waiting.
func (l Limits) batch() int { return min(api.MaxBatch, burst*l.PerCaller) }

// rates track the remaining requests of each caller.
type rates struct {
	perSecond int
	clock     func() time.Time

	mu  sync.Mutex      // guards all fields
	all map[string]rate // by name; only the book has names
}

type rate struct {
	left float64
	at   time.Time
}

// take charges n decisions to a caller's rate.
func (r *rates) take(name string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]rate{}
	}
	now, most, one := r.clock(), float64(burst*r.perSecond), r.all[name] // a new one has had all the time
	one.left, one.at = min(most, one.left+max(0, now.Sub(one.at).Seconds())*float64(r.perSecond)), now
	enough := one.left >= float64(max(1, n))
	if enough {
		one.left -= float64(n)
	}
	r.all[name] = one
	return enough
}

// strangersEvery is how often requests of unknown callers are recorded, for
// each reason: anyone who reaches the port may send any number of them.
const strangersEvery = time.Second

// strangers counts the requests of unknown callers.
type strangers struct {
	mu  sync.Mutex // guards all fields
	all map[verdict.Code]turned
}

type turned struct {
	unwritten int64
	last      time.Time // when a line was written
}

// met returns how many requests the next line covers; zero if none is due.
func (s *strangers) met(code verdict.Code, now time.Time) (covers int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[verdict.Code]turned{}
	}
	one := s.all[code]
	one.unwritten++
	if since := now.Sub(one.last); since < 0 || since >= strangersEvery {
		covers, one = one.unwritten, turned{last: now}
	}
	s.all[code] = one
	return covers
}

// rest returns the requests that are not recorded yet.
func (s *strangers) rest(now time.Time) map[verdict.Code]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := map[verdict.Code]int64{}
	for code, one := range s.all {
		if one.unwritten > 0 {
			left[code], s.all[code] = one.unwritten, turned{last: now}
		}
	}
	return left
}
