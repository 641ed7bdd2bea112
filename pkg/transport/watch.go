package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// StalledError reports a response body that fell silent.
type StalledError struct {
	After time.Duration // how long nothing came
}

// Error says how long the silence lasted.
func (e *StalledError) Error() string {
	return fmt.Sprintf("reading response: nothing came for %s", e.After)
}

// Unavailable reports that the world did not answer.
func (e *StalledError) Unavailable() bool { return true }

// watched ends a response whose body falls silent. The deadlines of
// [http.Transport] stop at the response header, and a deadline for the whole
// body would forbid large files on slow lines.
type watched struct {
	next    http.RoundTripper
	silence time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (w *watched) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	resp, err := w.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if _, upgraded := resp.Body.(io.Writer); upgraded {
		context.AfterFunc(req.Context(), func() { cancel(nil) })
		return resp, nil
	}
	resp.Body = &watchedBody{
		ReadCloser: resp.Body,
		cause:      func() error { return context.Cause(ctx) },
		cancel:     cancel,
		silence:    w.silence,
	}
	return resp, nil
}

// watchedBody arms a timer for the duration of each Read.
type watchedBody struct {
	io.ReadCloser
	cause   func() error // why the request was ended, nil if it was not
	cancel  context.CancelCauseFunc
	silence time.Duration
}

// Read implements [io.Reader].
func (b *watchedBody) Read(p []byte) (int, error) {
	timer := time.AfterFunc(b.silence, func() { b.cancel(&StalledError{After: b.silence}) })
	n, err := b.ReadCloser.Read(p)
	timer.Stop()
	if err != nil && err != io.EOF {
		if cause := b.cause(); cause != nil {
			err = cause
		}
	}
	return n, err
}

// Close ends the request, whether or not all of the body was read.
func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
