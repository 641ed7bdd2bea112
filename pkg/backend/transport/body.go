package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// bytesPerSecond is the minimum rate of a body.
const bytesPerSecond = 10 << 10

// Limits of bodies that libraries read whole: error answers, and answers to
// anything but a GET.
const (
	maxAnswer = 64 << 20
	maxError  = 1 << 20
)

// StalledError reports a request or response body that stopped, or came too
// slowly.
type StalledError struct {
	After time.Duration // how long we waited
	Bytes int64         // bytes received in that time
}

// Error says how long the body stalled.
func (e *StalledError) Error() string {
	if e.Bytes > 0 {
		return fmt.Sprintf("exchanging a body: only %d bytes came in %s", e.Bytes, e.After)
	}
	return fmt.Sprintf("exchanging a body: no bytes came for %s", e.After)
}

// Unavailable reports that the remote side did not answer.
func (e *StalledError) Unavailable() bool { return true }

// LimitError reports an answer that exceeds its limit.
type LimitError struct{ Limit int64 }

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("reading response: more than %d bytes", e.Limit)
}

// Unavailable reports that there was no usable answer.
func (e *LimitError) Unavailable() bool { return true }

// EndlessError reports a body whose end cannot be told from a broken
// connection: the server gave neither a length nor an end marker (RFC 9112,
// 6.3, 8).
type EndlessError struct{}

// Error describes the problem.
func (*EndlessError) Error() string {
	return "reading response: the connection ended, and the server had not declared the length of the body"
}

// Unavailable reports that there was no usable answer.
func (*EndlessError) Unavailable() bool { return true }

// once sends one attempt. The deadlines of [http.Transport] end at the response
// header, and a deadline for a whole body would forbid large files on slow
// lines; so bodies are monitored.
func (t *Transport) once(try *http.Request, who namer) (*http.Response, error) {
	var remote atomic.Pointer[net.Addr]
	ctx, cancel := context.WithCancelCause(httptrace.WithClientTrace(try.Context(), &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			at := got.Conn.RemoteAddr()
			remote.Store(&at)
		},
	}))
	if try.Body != nil && try.Body != http.NoBody {
		try.Body = &sentBody{ReadCloser: try.Body, silence: t.limits.silence, cancel: cancel}
	}
	wire := t.wires.wireFor(who)
	resp, err := wire.RoundTrip(try.WithContext(ctx))
	if err == nil {
		err = refusedByProxy(resp, wire.Proxy)
	}
	if err != nil {
		if stalled, is := errors.AsType[*StalledError](context.Cause(ctx)); is {
			err = stalled
		}
		cancel(nil)
		return nil, err
	}
	resp.Request = try
	if at := remote.Load(); at != nil {
		marked(resp, *at)
	}
	if _, upgraded := resp.Body.(io.Writer); upgraded {
		context.AfterFunc(try.Context(), func() { cancel(nil) })
		return resp, nil
	}
	resp.Body = &watchedBody{
		ReadCloser: resp.Body, limits: t.limits, most: limitOf(try.Method, resp), endless: endless(try.Method, resp),
		cause: func() error { return context.Cause(ctx) }, cancel: cancel,
	}
	return resp, nil
}

// limitOf returns the limit of a body, -1 for none.
func limitOf(method string, resp *http.Response) int64 {
	switch {
	case resp.StatusCode >= http.StatusMultipleChoices:
		return maxError
	case method == http.MethodGet || method == "":
		return -1
	}
	return maxAnswer
}

func endless(method string, resp *http.Response) bool {
	return method == http.MethodGet && resp.StatusCode < http.StatusMultipleChoices && resp.ProtoMajor == 1 &&
		resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && !resp.Uncompressed
}

// sentBody is a request body being sent: it fails when the other side stops
// reading.
type sentBody struct {
	io.ReadCloser
	silence time.Duration
	cancel  context.CancelCauseFunc
	timer   *time.Timer
}

// Read implements [io.Reader]. The time between two reads is spent sending.
func (b *sentBody) Read(p []byte) (int, error) {
	if b.timer != nil {
		b.timer.Stop()
	}
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		if b.timer == nil {
			b.timer = time.AfterFunc(b.silence, func() { b.cancel(&StalledError{After: b.silence}) })
		} else {
			b.timer.Reset(b.silence)
		}
	}
	return n, err
}

// Close implements [io.Closer].
func (b *sentBody) Close() error {
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.ReadCloser.Close()
}

// watchedBody is a response body being read: it monitors each pause, the rate
// and, if there is one, the limit.
type watchedBody struct {
	io.ReadCloser
	limits  limits
	most    int64
	endless bool
	cause   func() error // why the request was cancelled, or nil
	cancel  context.CancelCauseFunc
	timer   *time.Timer

	seen    int64
	blocked time.Duration // time spent reading in this window
	brought int64         // bytes in this window
}

// Read implements [io.Reader].
func (b *watchedBody) Read(p []byte) (int, error) {
	if b.timer == nil {
		b.timer = time.AfterFunc(b.limits.silence, func() { b.cancel(&StalledError{After: b.limits.silence}) })
	} else {
		b.timer.Reset(b.limits.silence)
	}
	begun := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	b.seen += int64(n)
	switch {
	case err == io.EOF && b.endless:
		return n, &EndlessError{}
	case err == io.EOF:
	case err != nil:
		if cause := b.cause(); cause != nil {
			err = cause
		}
	case b.most >= 0 && b.seen > b.most:
		err = &LimitError{Limit: b.most}
	default:
		err = b.pace(time.Since(begun), int64(n))
	}
	return n, err
}

// pace fails a body that keeps coming, but below the minimum rate.
func (b *watchedBody) pace(took time.Duration, n int64) error {
	b.blocked += took
	b.brought += n
	if b.blocked < b.limits.window {
		return nil
	}
	if b.brought < int64(bytesPerSecond*b.limits.window.Seconds()) {
		return &StalledError{After: b.blocked, Bytes: b.brought}
	}
	b.blocked, b.brought = 0, 0
	return nil
}

// Close ends the request, whether or not all of the body was read.
func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// Reporting returns a body whose failures are passed through wrap: a place says
// that an answer which breaks off is no answer. A refusal stays.
func Reporting(body io.ReadCloser, wrap func(error) error) io.ReadCloser {
	return &reporting{body, wrap}
}

type reporting struct {
	io.ReadCloser

	wrap func(error) error
}

// Read implements [io.Reader].
func (r *reporting) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if refusal := new(verdict.Error); err != nil && err != io.EOF && !errors.As(err, &refusal) {
		err = r.wrap(err)
	}
	return n, err
}
