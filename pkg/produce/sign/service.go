package sign

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Pauses between attempts while a service is unreachable.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// maxAnswer limits the size of an answer.
const maxAnswer = 1 << 20

// Work configures how a signer handles unreachable services. The zero value
// stores nothing, never waits, and reports nothing.
type Work struct {
	// Kept stores signatures as soon as they are made, so an interrupted run
	// makes none of them twice; see [Kept].
	Kept *Kept
	// Patience is how long one service may be unreachable before the signer
	// gives up.
	Patience time.Duration
	// Workers is how many signatures [Signer.Each] makes at a time. Default
	// 256.
	Workers int
	// Report prints the name of a service that a request waits for, and the progress.
	Report func(ctx context.Context, format string, args ...any)
	// Watch is called with the number of orders that [Signer.Each] has signed and
	// the total, at the start and after each, one call at a time. If it is nil,
	// Report is called at intervals instead.
	Watch func(done, all int)
	// Pause waits for a while, or until the context ends. Default a timer.
	Pause func(ctx context.Context, d time.Duration) error
}

// service is one service that a signature needs.
type service struct {
	name, address string
	client        *http.Client
	work          Work
	clock         func() time.Time

	probing chan struct{} // locked by the goroutine that probes an unreachable service

	mu       sync.Mutex // guards the fields below
	cause    *awayError // the last failure; nil if the service answers
	since    time.Time  // when it was first found unreachable
	reported time.Time  // when that was last reported
	gaveUp   bool       // the signer gave up on it
	waiting  int        // how many goroutines wait for it
	retries  int        // how often a request was repeated
}

func newService(name, address string, c Config) *service {
	return &service{
		name: name, address: address, client: transport.Client(c.Transport), work: c.Work, clock: c.Clock,
		probing: make(chan struct{}, 1),
	}
}

// awayError reports a service that is unreachable now, and may answer later.
type awayError struct {
	verdict.UnavailableError
	after time.Duration // how long the service asks to wait
}

func (s *service) away(cause error) error {
	if wrapped, is := errors.AsType[*url.Error](cause); is {
		cause = wrapped.Err
	}
	return &awayError{UnavailableError: verdict.UnavailableError{Place: s.address, Op: "contacting the " + s.name, Err: cause}}
}

// Unwrap returns the kind of the error.
func (e *awayError) Unwrap() error { return &e.UnavailableError }

const mediaJSON = "application/json"

// question is one request to a service.
type question struct {
	path      string // below the address; empty for the address itself
	mediaType string
	body      []byte
	secret    string // a bearer token, which is removed from errors
	limit     int64  // of the answer; default maxAnswer
}

// send sends a request, a GET without a body, and returns the response with its
// body, if the status is an expected one.
func (s *service) send(ctx context.Context, q question, expected ...int) ([]byte, *http.Response, error) {
	address := s.address
	if q.path != "" {
		address = strings.TrimSuffix(address, "/") + q.path
	}
	method := http.MethodPost
	if q.body == nil {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(q.body))
	if err != nil {
		return nil, nil, verdict.Wrap(verdict.ConfigParse, s.name, err)
	}
	if q.body != nil {
		r.Header.Set("Content-Type", q.mediaType)
	}
	if q.mediaType == mediaJSON {
		r.Header.Set("Accept", mediaJSON)
	}
	if q.secret != "" {
		r.Header.Set("Authorization", "Bearer "+q.secret)
	}
	limit := cmp.Or(q.limit, maxAnswer)
	response, err := s.client.Do(r)
	switch {
	case err != nil && isPermanent(err):
		return nil, nil, &verdict.UnavailableError{Place: s.address, Op: "contacting the " + s.name, Err: err}
	case err != nil:
		return nil, nil, s.away(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, nil, s.away(err)
	}
	if int64(len(body)) > limit {
		return nil, nil, s.refuse("the answer has more than %d bytes", limit)
	}
	if slices.Contains(expected, response.StatusCode) {
		return body, response, nil
	}
	answer := fmt.Errorf("the service answered %d: %.200q", response.StatusCode, redactSecret(string(body), q.secret))
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

// isPermanent reports errors for which waiting does not help: the network is
// switched off, the certificate is of another host, or a redirect is not
// allowed.
func isPermanent(err error) bool {
	var other *tls.CertificateVerificationError
	var astray *transport.RedirectError
	return errors.Is(err, transport.ErrOffline) || errors.As(err, &other) || errors.As(err, &astray)
}

func (s *service) refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.ServiceRefused, s.name, format, args...)
}

// retry repeats an act while the service is unreachable, as long as patience
// lasts and still is true. Only one goroutine probes, at growing intervals;
// the others continue when it succeeds.
func (s *service) retry(ctx context.Context, still func() bool, act func(context.Context) error) error {
	for {
		err := s.lastFailure()
		if err == nil {
			if err = act(ctx); !s.isAway(ctx, err) {
				return err
			}
		}
		if done, err := s.queue(ctx, err, still, act); done {
			return err
		}
	}
}

// queue waits for the turn to probe, and probes. It is not done if another
// goroutine found that the service answers again.
func (s *service) queue(ctx context.Context, err error, still func() bool, act func(context.Context) error) (done bool, _ error) {
	s.countWaiting(1)
	defer s.countWaiting(-1)
	select {
	case s.probing <- struct{}{}:
		defer func() { <-s.probing }()
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

// lastFailure is the last failure of the service; nil if it should be contacted,
// because it answered, or because the signer gave up on it before.
func (s *service) lastFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil || s.gaveUp {
		return nil
	}
	return s.cause
}

// isAway records whether the service answered.
func (s *service) isAway(ctx context.Context, err error) bool {
	away, is := errors.AsType[*awayError](err)
	if is && ctx.Err() != nil {
		return false // the context was cancelled
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case is:
		if s.cause == nil {
			s.since = s.clock()
		}
		s.cause = away
		s.retries++
	case s.cause != nil:
		if !s.reported.IsZero() {
			s.work.Report(ctx, "the %s is reachable again, after %s", s.name, s.clock().Sub(s.since).Round(time.Second))
		}
		s.cause, s.reported, s.gaveUp = nil, time.Time{}, false
	}
	return is && s.work.Patience > 0
}

func (s *service) countWaiting(n int) {
	s.mu.Lock()
	s.waiting += n
	s.mu.Unlock()
}

// wait says how long to wait before the next attempt; zero if the service
// answers again. It reports the wait now and then. It is false when patience
// is used up.
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
		if !s.gaveUp {
			s.work.Report(ctx, "the %s has been unreachable for %s; giving up: %v", s.name, lasted, s.cause.Err)
		}
		s.gaveUp = true
		return 0, false
	}
	next := min(max(pause*3/4+rand.N(pause/4+1), s.cause.after), left)
	if s.reported.IsZero() || now.Sub(s.reported) >= longestPause {
		s.reported = now
		s.work.Report(ctx, "%s waiting for the %s %s; unreachable for %s, next try in %s, giving up in %s: %v",
			plural.Of(s.waiting, "signature"), s.name, s.address, lasted, next.Round(time.Second), left.Round(time.Second), s.cause.Err)
	}
	return next, true
}
