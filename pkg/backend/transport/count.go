package transport

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Counts says what went over the network so far.
type Counts struct {
	Requests      int64 `json:"requests"`      // as they were asked for
	Attempts      int64 `json:"attempts"`      // as they were sent, continuations included
	Retries       int64 `json:"retries"`       // repeated after a failure
	Continuations int64 `json:"continuations"` // of bodies that broke off
	Sent          int64 `json:"sent"`          // bytes of bodies
	Received      int64 `json:"received"`      // bytes of bodies
}

type counters struct {
	requests, attempts, retries, continuations, sent, received atomic.Int64
}

// Counts returns what went over the network until now.
func (t *Transport) Counts() Counts {
	c := &t.counts
	return Counts{
		Requests: c.requests.Load(), Attempts: c.attempts.Load(), Retries: c.retries.Load(),
		Continuations: c.continuations.Load(), Sent: c.sent.Load(), Received: c.received.Load(),
	}
}

// Event is an attempt that did not succeed.
type Event struct {
	Method  string
	Host    string
	Attempt int           // the first is 1
	Status  int           // what was answered, 0 if nothing
	Err     error         // why nothing was answered
	Wait    time.Duration // before the next attempt
	Last    bool          // there is no next attempt
}

// observe tells whoever listens.
func (t *Transport) observe(e Event, resp *http.Response) {
	if t.config.Observe == nil {
		return
	}
	if resp != nil {
		e.Status = resp.StatusCode
	}
	t.config.Observe(e)
}
