package simulate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// errDead is the answer to every request of an actor that was killed. Nothing that the
// actor does afterwards counts.
var errDead = errors.New("simulate: this process was killed")

// patience is how long a request waits for an answer.
const patience = 30 * time.Second

// RoundTrip implements [http.RoundTripper]: the network, as one actor has it.
func (a *Actor) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(orEmpty(req.Body))
	if req.Body != nil {
		_ = req.Body.Close() // the contract of a RoundTripper
	}
	if err != nil || a.dead() {
		return nil, cmp.Or(err, errDead)
	}
	w := a.world
	what := w.stable(fmt.Sprintf("%s: %s %s", a.name, req.Method, req.URL))
	if at, _, upload := strings.Cut(req.URL.Path, "/blobs/uploads/"); upload { // the number that follows is the server's
		what = w.stable(fmt.Sprintf("%s: %s %s%s upload of %s %s", a.name, req.Method, req.URL.Host, at, digest.Of(digest.SHA256, body), req.URL.RawQuery))
	}
	dice, calm := w.coming(what)
	x := exchange{Actor: a, req: req, body: body, dice: dice, what: what}
	if !calm {
		x.fate = w.Rates.draw(dice)
	}
	if x.fate == Expired && !strings.HasPrefix(req.URL.Path, "/v2/") { // the others want no token, or each time another
		x.fate = ""
	}
	x.there, x.back = delay(dice), delay(dice)
	return x.play()
}

func orEmpty(body io.Reader) io.Reader {
	if body == nil {
		return bytes.NewReader(nil)
	}
	return body
}

// delay is 1 to 20 ms, to the nanosecond, so that no two requests meet.
func delay(dice *rand.Rand) time.Duration {
	return time.Millisecond + time.Duration(dice.Int64N(int64(19*time.Millisecond)))
}

// exchange is one request and its fate.
type exchange struct {
	*Actor
	req         *http.Request
	body        []byte
	dice        *rand.Rand
	what        string
	fate        Fault
	there, back time.Duration
}

// play is the way of a request there and back.
func (x exchange) play() (*http.Response, error) {
	if x.fate != "" {
		x.world.count(x.fate)
	}
	if err := x.sleep(); err != nil {
		return nil, err
	}
	if x.fate == Slow {
		x.there += time.Duration(x.dice.Int64N(int64(8 * time.Second)))
	}
	if err := x.wait(x.there); err != nil {
		return nil, err
	}
	before, after := x.step()
	if before {
		return nil, x.kill()
	}
	resp, err := x.meet()
	if after {
		return nil, x.kill()
	}
	if err != nil {
		return nil, err
	}
	if err := x.wait(x.back); err != nil {
		return nil, err
	}
	return resp, nil
}

// sleep suspends the process, or waits while it is suspended. What makes something public
// is sent before: the lease is checked immediately before it, and that a process stops in
// between, package lease does not promise to notice.
func (x exchange) sleep() error {
	if publishes(x.req) {
		return nil
	}
	if x.fate == Suspended {
		x.suspend(time.Duration(x.dice.Int64N(int64(10 * time.Minute))))
	}
	return x.wait(x.asleep())
}

// meet is what happens at the server.
func (x exchange) meet() (*http.Response, error) {
	x.world.note(x.what + " " + string(x.fate))
	switch x.fate {
	case Refused:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case Lost:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	case Unheard:
		x.act()
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	case Silent:
		if x.dice.IntN(2) == 0 {
			x.act()
		}
		if err := x.wait(patience); err != nil {
			return nil, err
		}
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	case Twice:
		x.act()
	case Later:
		if x.req.Method != http.MethodPost { // nothing on the way repeats those
			x.again()
		}
	case Busy:
		status := []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}[x.dice.IntN(2)]
		return x.answer(status, "Retry-After", strconv.Itoa(1+x.dice.IntN(5))), nil
	case Failing:
		if x.dice.IntN(2) == 0 {
			x.act()
		}
		return x.answer([]int{500, 502, 504}[x.dice.IntN(3)]), nil
	case Expired:
		return x.answer(http.StatusUnauthorized), nil
	case Forgotten:
		if resp := x.forget(); resp != nil {
			return resp, nil
		}
	}
	resp := x.act()
	if x.fate == Truncated && x.req.Method != http.MethodHead {
		raw, _ := io.ReadAll(resp.Body) // in memory
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(raw[:len(raw)/2]), broken{}))
	}
	return resp, nil
}

// broken ends a body before its end.
type broken struct{}

// Read implements [io.Reader].
func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// forget is the answer of a server that says yes and does nothing, where that can be
// noticed; else nil.
func (x exchange) forget() *http.Response {
	if x.req.Method != http.MethodPut || !strings.HasPrefix(x.req.URL.Path, "/v2/") {
		return nil
	}
	sum := digest.Of(digest.SHA256, x.body).String()
	return x.answer(http.StatusCreated, "Docker-Content-Digest", sum, "Location", x.req.URL.Path)
}

// again lets the server get the request once more, a moment after the answer. The actor
// that sent it may have given its lease back by then, and cannot recall the request: so it
// is not checked whether that actor has the lease.
func (x exchange) again() {
	late := x.back + time.Duration(x.dice.Int64N(int64(2*time.Second)))
	x.world.late.Go(func() {
		time.Sleep(late)
		x.world.note(x.what + " again")
		x.Actor = &Actor{world: x.world}
		x.act()
	})
}

// act is what the server does with the request, and its answer.
func (x exchange) act() *http.Response {
	host, there := x.world.Hosts[x.req.URL.Host]
	if !there {
		return x.answer(http.StatusBadGateway)
	}
	req := x.req.Clone(context.WithoutCancel(x.req.Context()))
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
	req.Host, req.RequestURI, req.RemoteAddr = x.req.URL.Host, x.req.URL.RequestURI(), "127.0.0.1:1"
	req.URL.Scheme, req.URL.Host = "", "" // as a server has it
	w := httptest.NewRecorder()
	host.ServeHTTP(w, req)
	resp := w.Result()
	resp.Request = x.req
	if resp.ContentLength < 0 || x.req.Method != http.MethodHead {
		resp.ContentLength = int64(w.Body.Len())
	}
	if x.req.Method == http.MethodHead {
		resp.Body = http.NoBody
	}
	if check := x.world.Check; check != nil && x.req.Method != http.MethodGet && x.req.Method != http.MethodHead {
		if err := check(x.Actor, x.req); err != nil {
			x.world.Wrongf("after %s (%s): %v", x.what, x.fate, err)
		}
	}
	return resp
}

// answer is an answer of the server that is not its own program's.
func (x exchange) answer(status int, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Request: x.req,
	}
	for i := 0; i+1 < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// wait waits in the time of the world.
func (x exchange) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		choose(x.dice)
		if x.dead() {
			return errDead
		}
		return nil
	case <-x.req.Context().Done():
		return context.Cause(x.req.Context())
	}
}
