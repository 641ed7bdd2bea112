package transport

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// retrier repeats requests that the world did not answer.
type retrier struct {
	next      http.RoundTripper
	userAgent string
	attempts  int
	maxWait   time.Duration
	firstWait time.Duration // doubled before each further attempt
}

// RoundTrip implements [http.RoundTripper].
func (r *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		try, err := r.prepare(req, attempt)
		if err != nil {
			return nil, err
		}
		resp, err := r.next.RoundTrip(try)
		if attempt >= r.attempts || !repeatable(req) || !worthRepeating(req, resp, err) {
			return resp, err
		}
		wait, ok := r.wait(resp, attempt)
		if !ok {
			return resp, err
		}
		if resp != nil {
			discard(resp)
		}
		if err := sleep(req.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// prepare copies req, because a RoundTripper must not change what it is given
// and because every attempt needs an unread body.
func (r *retrier) prepare(req *http.Request, attempt int) (*http.Request, error) {
	try := req.Clone(req.Context())
	if try.Header.Get("User-Agent") == "" {
		try.Header.Set("User-Agent", r.userAgent)
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

// worthRepeating reports whether another attempt is harmless and may help. A
// POST is repeated only if the server says that it did not take it; anything
// else could do the same act twice.
func worthRepeating(req *http.Request, resp *http.Response, err error) bool {
	if req.Context().Err() != nil {
		return false
	}
	if err != nil {
		return idempotent(req.Method) && transient(err)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return idempotent(req.Method) || resp.Header.Get("Retry-After") != ""
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return idempotent(req.Method)
	}
	return false
}

// idempotent follows RFC 9110, 9.2.2.
func idempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// transient reports errors of a connection that another connection may not
// have. A refused connection, an unknown name and a bad certificate are
// answers: repeating them only delays the report.
func transient(err error) bool {
	for _, passing := range []error{
		io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.IsTemporary
	}
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// wait is the pause before the next attempt; ok is false if the server asks
// for more patience than there is.
func (r *retrier) wait(resp *http.Response, attempt int) (pause time.Duration, ok bool) {
	if resp != nil {
		if asked, found := retryAfter(resp.Header.Get("Retry-After")); found {
			return asked, asked <= r.maxWait
		}
	}
	pause = min(r.firstWait<<(attempt-1), r.maxWait)
	return pause/2 + rand.N(pause/2+1), true
}

// retryAfter reads both forms of the header: seconds and a date.
func retryAfter(value string) (time.Duration, bool) {
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(time.Until(date), 0), true
	}
	return 0, false
}

// discard reads a little of the body, so that the connection can be used
// again, and closes it.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // best effort
	_ = resp.Body.Close()
}

// sleep waits for d or for the end of ctx, whichever is first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
