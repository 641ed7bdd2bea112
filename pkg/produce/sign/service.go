package sign

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Pauses between attempts while a service is away.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// maxAnswer bounds what a service may answer.
const maxAnswer = 1 << 20

// Work says how a signer bears a long night. The zero value keeps nothing,
// waits for nobody and tells nobody.
type Work struct {
	// Kept is where signatures stand from when they are made, so that a run
	// that was interrupted makes none of them twice; see [Kept].
	Kept *Kept
	// Patience is how long one service may be away before it is given up.
	Patience time.Duration
	// Workers is how many signatures [Signer.Each] has under way. Default 64.
	Workers int
	// Report is told what is waited for, and how far it is.
	Report func(ctx context.Context, format string, args ...any)
	// Watch is shown how many of how many [Signer.Each] has signed, at the
	// beginning and after each, one call at a time. Where it is nil Report is
	// told, now and then.
	Watch func(done, all int)
	// Pause waits for a while, or until the context ends. Default a timer.
	Pause func(ctx context.Context, d time.Duration) error
}

// service is one of those whom a signature needs.
type service struct {
	name, address string
	client        *http.Client
	work          Work
	clock         func() time.Time

	turn chan struct{} // held by the one that probes while it is away

	mu     sync.Mutex // guards what follows
	cause  *awayError // with which it was found away; nil: it answers
	since  time.Time  // when it was first found away
	told   time.Time  // when that was last reported
	left   bool       // it was given up
	behind int        // how many wait for it
	again  int        // how often it had to be asked once more
}

func newService(name, address string, c Config) *service {
	return &service{
		name: name, address: address, client: transport.Client(c.Transport), work: c.Work, clock: c.Clock,
		turn: make(chan struct{}, 1),
	}
}

// awayError reports a service that does not answer now, and may later.
type awayError struct {
	verdict.UnavailableError
	after time.Duration // how long it asks to be left alone
}

// away makes one.
func (s *service) away(cause error) error {
	var wrapped *url.Error
	if errors.As(cause, &wrapped) {
		cause = wrapped.Err
	}
	return &awayError{UnavailableError: verdict.UnavailableError{Place: s.address, Op: "asking the " + s.name, Err: cause}}
}

// Unwrap keeps the kind of the error for whoever asks.
func (e *awayError) Unwrap() error { return &e.UnavailableError }

// do sends one request and returns the answer with its body, whose status is
// one of those that are expected. secret is kept out of errors.
func (s *service) do(r *http.Request, secret string, expected ...int) ([]byte, *http.Response, error) {
	return s.doLimit(r, maxAnswer, secret, expected...)
}

func (s *service) doLimit(r *http.Request, limit int64, secret string, expected ...int) ([]byte, *http.Response, error) {
	response, err := s.client.Do(r)
	switch {
	case err != nil && forGood(err):
		return nil, nil, &verdict.UnavailableError{Place: s.address, Op: "asking the " + s.name, Err: err}
	case err != nil:
		return nil, nil, s.away(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, nil, s.away(err)
	}
	if int64(len(body)) > limit {
		return nil, nil, s.refuse("it answered more than %d bytes", limit)
	}
	for _, status := range expected {
		if response.StatusCode == status {
			return body, response, nil
		}
	}
	answer := fmt.Errorf("it answered %d: %.200q", response.StatusCode, without(string(body), secret))
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly:
	default:
		if response.StatusCode < 500 || response.StatusCode == http.StatusNotImplemented {
			return nil, response, s.refuse("%v", answer)
		}
	}
	err = s.away(answer)
	var away *awayError
	if seconds, e := strconv.Atoi(response.Header.Get("Retry-After")); e == nil && seconds > 0 && errors.As(err, &away) {
		away.after = min(time.Duration(seconds)*time.Second, time.Hour)
	}
	return nil, response, err
}

// forGood reports errors that are the same after an hour: a network that is
// switched off, a service that is somebody else, a redirect that leads astray.
func forGood(err error) bool {
	var other *tls.CertificateVerificationError
	var astray *transport.RedirectError
	return errors.Is(err, transport.ErrOffline) || errors.As(err, &other) || errors.As(err, &astray)
}

func (s *service) refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.ServiceRefused, s.name, format, args...)
}

// ride repeats an act while the service is away, as long as there is patience
// and still is true. Of all that wait one probes, at growing intervals; the
// others follow, all at once, when it is through.
func (s *service) ride(ctx context.Context, still func() bool, act func(context.Context) error) error {
	for {
		err := s.known()
		if err == nil {
			if err = act(ctx); !s.isAway(ctx, err) {
				return err
			}
		}
		if done, err := s.stand(ctx, err, still, act); done {
			return err
		}
	}
}

// stand waits in line, and probes when it is at the head. It is not done when
// somebody else found that the service answers again.
func (s *service) stand(ctx context.Context, err error, still func() bool, act func(context.Context) error) (done bool, _ error) {
	s.count(1)
	defer s.count(-1)
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return true, err
	}
	for pause := firstPause; still(); pause = min(2*pause, longestPause) {
		wait, patient := s.wait(ctx, pause)
		switch {
		case !patient:
			return true, err
		case wait == 0:
			return false, nil
		case s.work.Pause(ctx, wait) != nil || !still():
			return true, err
		}
		if err = act(ctx); !s.isAway(ctx, err) {
			return true, err
		}
	}
	return true, err
}

// known is the error with which the service was found away, nil where it is to
// be asked: because it answered, or because it was given up before.
func (s *service) known() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil || s.left {
		return nil
	}
	return s.cause
}

// isAway notes whether the service answered.
func (s *service) isAway(ctx context.Context, err error) bool {
	var away *awayError
	is := errors.As(err, &away)
	if is && ctx.Err() != nil {
		return false // we hung up
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case is:
		if s.cause == nil {
			s.since = s.clock()
		}
		s.cause = away
		s.again++
	case s.cause != nil:
		if !s.told.IsZero() {
			s.work.Report(ctx, "the %s answers again, after %s", s.name, s.clock().Sub(s.since).Round(time.Second))
		}
		s.cause, s.told, s.left = nil, time.Time{}, false
	}
	return is && s.work.Patience > 0
}

func (s *service) count(n int) {
	s.mu.Lock()
	s.behind += n
	s.mu.Unlock()
}

// wait says how long to leave the service alone, not at all if it answers
// again, and tells people now and then. It is false when there is no more
// patience.
func (s *service) wait(ctx context.Context, pause time.Duration) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		return 0, true
	}
	now := s.clock()
	lasted := now.Sub(s.since).Round(time.Second)
	left := s.work.Patience - now.Sub(s.since)
	if left <= 0 || s.cause.after > left {
		if !s.left {
			s.work.Report(ctx, "the %s has been away for %s; giving up: %v", s.name, lasted, s.cause.Err)
		}
		s.left = true
		return 0, false
	}
	next := min(max(pause*3/4+rand.N(pause/4+1), s.cause.after), left)
	if s.told.IsZero() || now.Sub(s.told) >= longestPause {
		s.told = now
		s.work.Report(ctx, "waiting for the %s %s, with %s: it has not answered for %s, next try in %s, given up in %s: %v",
			s.name, s.address, plural.Of(s.behind, "signature"), lasted, next.Round(time.Second), left.Round(time.Second), s.cause.Err)
	}
	return next, true
}
