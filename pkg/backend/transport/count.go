package transport

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Counts is the network traffic so far.
type Counts struct {
	Requests      int64 `json:"requests"`      // as requested by callers
	Attempts      int64 `json:"attempts"`      // as sent, continuations included
	Retries       int64 `json:"retries"`       // repeated after a failure
	Continuations int64 `json:"continuations"` // of bodies that broke off
	Sent          int64 `json:"sent"`          // bytes of bodies
	Received      int64 `json:"received"`      // bytes of bodies
}

type counters struct {
	requests, attempts, retries, continuations, sent, received atomic.Int64
}

// Counts returns the network traffic so far.
func (t *Transport) Counts() Counts {
	c := &t.counts
	return Counts{
		Requests: c.requests.Load(), Attempts: c.attempts.Load(), Retries: c.retries.Load(),
		Continuations: c.continuations.Load(), Sent: c.sent.Load(), Received: c.received.Load(),
	}
}

// Event is a failed attempt.
type Event struct {
	Method  string
	Host    string
	Attempt int           // the first is 1
	Status  int           // status of the answer, 0 if none
	Err     error         // why there was no answer
	Wait    time.Duration // before the next attempt
	Last    bool          // there is no next attempt
}

// observe calls [Config.Observe], if set.
func (t *Transport) observe(e Event, resp *http.Response) {
	if t.config.Observe == nil {
		return
	}
	if resp != nil {
		e.Status = resp.StatusCode
	}
	t.config.Observe(e)
}
