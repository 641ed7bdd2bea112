package serve

import (
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// strangersEvery is how often requests of unknown callers are recorded, for
// each reason: anyone who reaches the port may send any number of them.
const strangersEvery = time.Second

// strangers counts the requests of unknown callers.
type strangers struct {
	mu  sync.Mutex // guards all fields
	all map[verdict.Code]*turned
}

type turned struct {
	unwritten int64
	last      time.Time // when a line was written
}

// met returns how many requests the next line covers; zero if none is due.
func (s *strangers) met(code verdict.Code, now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[code]
	if one == nil {
		if s.all == nil {
			s.all = map[verdict.Code]*turned{}
		}
		one = &turned{}
		s.all[code] = one
	}
	one.unwritten++
	if since := now.Sub(one.last); since >= 0 && since < strangersEvery {
		return 0
	}
	n := one.unwritten
	one.unwritten, one.last = 0, now
	return n
}

// rest returns the requests that are not recorded yet.
func (s *strangers) rest(now time.Time) map[verdict.Code]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := map[verdict.Code]int64{}
	for code, one := range s.all {
		if one.unwritten > 0 {
			left[code] = one.unwritten
			one.unwritten, one.last = 0, now
		}
	}
	return left
}
