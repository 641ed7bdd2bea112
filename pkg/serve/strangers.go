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
