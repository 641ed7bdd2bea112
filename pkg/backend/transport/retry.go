package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// longestWait bounds the pauses that we choose ourselves.
const longestWait = 30 * time.Second

// refusals bounds the attempts after "connection refused": a restart takes a
// moment, and a stopped service should be reported.
const refusals = 3

// exchange sends a request with retries. Without a slot it does not count among
// those that wait for the host: it continues one that was answered.
func (t *Transport) exchange(req *http.Request, w way, slot bool) (*http.Response, error) {
	host := t.hosts.of(origin(req.URL))
	host.batch(req.Context())
	var begun time.Time
	for attempt := 1; ; attempt++ {
		try, err := prepare(req, w, t.config.UserAgent, attempt)
		if err != nil {
			return nil, err
		}
		if err := host.enter(req.Context(), slot, t.config.Patience); err != nil {
			closeBody(try)
			return nil, err
		}
		if attempt == 1 {
			begun = time.Now()
		}
		resp, err := t.once(try, w.named)
		asked, says := retryAfter(resp)
		pause := t.pause(attempt, asked, says)
		host.leave(slot, lesson{overloaded: overloaded(resp, says), pause: pause, answered: err == nil && resp.StatusCode < http.StatusInternalServerError})
		if !failed(req, resp, err) {
			return resp, err
		}
		hurried := endsWithin(req.Context(), pause)
		end := attempt >= t.config.Attempts && !overloaded(resp, says) || errors.Is(err, syscall.ECONNREFUSED) && attempt >= refusals ||
			time.Since(begun)+pause > t.config.Patience || host.gaveUp() || hurried ||
			!repeatable(req) || !harmlessAgain(req, resp, err, says)
		if end {
			host.giveUp(attempt > 1 && !hurried) // the deadline of one caller says nothing to the others
			return resp, err
		}
		if resp != nil {
			discard(resp)
		}
		if err := Sleep(req.Context(), pause); err != nil {
			return nil, err
		}
	}
}

// endsWithin reports whether a request ends before a pause would. Then the
// current answer is final: after the pause there would be none.
func endsWithin(ctx context.Context, pause time.Duration) bool {
	until, has := ctx.Deadline()
	return has && time.Until(until) <= pause
}

// prepare copies req, because a RoundTripper must not change its argument, and
// because every attempt needs an unread body.
func prepare(req *http.Request, w way, agent string, attempt int) (*http.Request, error) {
	try := req.WithContext(req.Context()) // a shallow copy
	try.Header = w.header.Clone()
	switch theirs := try.Header.Get("User-Agent"); {
	case theirs == "":
		try.Header.Set("User-Agent", agent)
	case !strings.HasPrefix(theirs, agent):
		try.Header.Set("User-Agent", agent+" "+theirs)
	}
	if attempt > 1 && req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		try.Body = body
	}
	return try, nil
}

// repeatable reports whether the body of req can be sent a second time.
func repeatable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// failed reports whether another attempt could succeed.
func failed(req *http.Request, resp *http.Response, err error) bool {
	if req.Context().Err() != nil {
		return false
	}
	if err != nil {
		return transient(err)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	_, says := retryAfter(resp)
	return overloaded(resp, says)
}

// overloaded reports whether the host asks for fewer requests. GitHub answers
// 403, with the time after which to ask again.
func overloaded(resp *http.Response, says bool) bool {
	if resp == nil {
		return false
	}
	status := resp.StatusCode
	return status == http.StatusTooManyRequests || says && (status == http.StatusServiceUnavailable || status == http.StatusForbidden)
}

// harmlessAgain reports whether another attempt cannot act twice: the request
// is idempotent, or the server says that it did not accept it, or the server
// never received it.
func harmlessAgain(req *http.Request, resp *http.Response, err error, says bool) bool {
	return idempotent(req) || overloaded(resp, says) || unsent(err)
}

// idempotent follows RFC 9110, 9.2.2, and what [Repeatable] says.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	_, marked := req.Header[markRepeatable]
	return marked
}

// markRepeatable is the header by which net/http knows requests that may be
// repeated. Without a value it is not sent.
const markRepeatable = "Idempotency-Key"

// Repeatable returns a transport for requests that are idempotent whatever
// their method says: POST queries, and conditional writes.
func Repeatable(rt http.RoundTripper) http.RoundTripper {
	return repeater{next: rt, which: func(*http.Request) bool { return true }}
}

// RepeatableIf is [Repeatable] for some requests only.
func RepeatableIf(rt http.RoundTripper, which func(*http.Request) bool) http.RoundTripper {
	return repeater{next: rt, which: which}
}

type repeater struct {
	next  http.RoundTripper
	which func(*http.Request) bool
}

// RoundTrip implements [http.RoundTripper].
func (r repeater) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.which(req) {
		return r.next.RoundTrip(req)
	}
	marked := req.Clone(req.Context())
	if marked.Header == nil {
		marked.Header = http.Header{}
	}
	marked.Header[markRepeatable] = []string{}
	return r.next.RoundTrip(marked)
}

// transient reports connection errors that another connection may avoid. An
// unknown name, a bad certificate and a forbidden address are final: a retry
// only delays the report.
func transient(err error) bool {
	for _, passing := range []error{
		io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ECONNREFUSED,
		net.ErrClosed, // seen by the writer when the reader ended first
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	if _, no := errors.AsType[*AddressError](err); no || errors.Is(err, ErrOffline) {
		return false
	}
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return false
	}
	if dns, is := errors.AsType[*net.DNSError](err); is {
		return dns.IsTemporary || dns.IsTimeout
	}
	var stalled *StalledError
	var slow net.Error
	// net/http's text for a connection that ends before the answer begins.
	return errors.As(err, &stalled) || errors.As(err, &slow) && slow.Timeout() || strings.HasSuffix(err.Error(), "server closed idle connection")
}

// unsent reports whether nothing of the request was sent: there was no
// connection.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// pause is the time before the next attempt: as long as the server asks, else
// longer after each attempt, and jittered for each worker.
func (t *Transport) pause(attempt int, asked time.Duration, says bool) time.Duration {
	if says {
		return asked + jitter(t.limits.firstWait/4)
	}
	wait := min(t.limits.firstWait<<min(attempt-1, 16), longestWait)
	return wait/2 + jitter(wait/2)
}

func jitter(most time.Duration) time.Duration { return rand.N(most + 1) }

// maxAsked replaces a time that exceeds a duration, or would with a little added.
const maxAsked = 100 * 365 * 24 * time.Hour

// retryAfter reads both forms of the header, seconds and a date, and the time
// at which a rate limit of GitHub that is used up begins anew.
func retryAfter(resp *http.Response) (asked time.Duration, says bool) {
	if resp == nil {
		return 0, false
	}
	value := resp.Header.Get("Retry-After")
	if value == "" && resp.Header.Get("X-RateLimit-Remaining") == "0" && resp.StatusCode >= http.StatusBadRequest {
		if reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil {
			return min(max(time.Unix(reset, 0).Sub(answered(resp)), 0), maxAsked), true
		}
	}
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return maxAsked, true
		}
		return min(time.Duration(seconds)*time.Second, maxAsked), true
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(date.Sub(answered(resp)), 0), maxAsked), true
	}
	return 0, false
}

// answered is when the server answered, by its own clock, which may differ from
// ours: the times in its answer are by that clock.
func answered(resp *http.Response) time.Time {
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return date
	}
	return time.Now()
}

// discard reads a little of the body, so that the connection can be reused, and
// closes it.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // best effort
	_ = resp.Body.Close()
}

// Sleep waits for d or for the end of ctx, whichever is first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
