// Package transport is the one way to the network.
//
// Every HTTP request of the product goes through a [Transport]: registries,
// buckets, certificate authority, log, timestamps and the trust root alike. It
// owns the deadlines of each phase, the retries, the budget of each host, the
// rules of redirects, the proxy, and the switch that forbids the network
// altogether:
//
//	rt := transport.New(transport.Config{UserAgent: "waybill/1.0"})
//	client := transport.Client(rt)
//
// What it promises:
//
//   - Dialling, the TLS handshake, the response header, each silence within a
//     body and the pace of a body have a limit of their own; no request hangs
//     for ever. How long one request is tried in all is [Config.Patience].
//   - Retries are jittered, honour Retry-After (RFC 9110, 10.2.3) and end with
//     the request's context. What has no time for another attempt ends with the
//     answer that it has. A request is repeated only if repeating it is harmless
//     (RFC 9110, 9.2.2, or [Repeatable]) or nothing of it was sent, and only if
//     its body can be read again.
//   - All workers share one budget per host: when it answers 429, all of them
//     wait, and then ask less at once and less often, until it takes more again.
//   - The body of a GET that breaks off is continued where it broke, if the
//     server names the same version of it; else it ends with an error. A body
//     whose end cannot be told from a broken connection ends with an error too.
//   - Redirects follow the rules of [Client], whoever follows them: the
//     transport sees which answer caused a request. An address that a stranger
//     named is held against the rules again when it is dialled, after its name
//     was resolved.
//   - HTTPS_PROXY, HTTP_PROXY and NO_PROXY are honoured, never for loopback.
//     SSL_CERT_FILE is honoured by crypto/x509.
//   - Offline, every dial fails with [ErrOffline].
//
// It owns no credentials, no cookies and no cache. The body of a GET has no
// limit here, for its reader knows what it expects; other bodies have one,
// because libraries read them whole. An answer with an error status is an
// answer, not an error.
package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PatienceVariable names the environment variable that sets the default of
// [Config.Patience], a duration such as "90s" or "1h".
const PatienceVariable = "WAYBILL_PATIENCE"

// defaultPatience is for people who wait; a pipeline that shall ride out an
// outage sets more.
const defaultPatience = 30 * time.Second

// Config says how to reach the world. The zero value is a sound default.
type Config struct {
	// UserAgent begins the User-Agent of every request; a library's own name
	// follows. Default "waybill".
	UserAgent string
	// Offline makes every dial fail with [ErrOffline], loopback included.
	Offline bool
	// Roots are the certificate authorities to believe; nil means those of
	// the system (and SSL_CERT_FILE).
	Roots *x509.CertPool
	// Certificate is shown to servers that ask for one, at addresses that the
	// operator named; nil shows none. A transport that has one is for one server.
	Certificate *tls.Certificate
	// Attempts is how often one request is sent at most, those not counted that
	// the host asked to send later: they end with the patience. Default 10.
	Attempts int
	// Patience is how long one request is tried in all. A server that asks for
	// more by Retry-After is not asked again. No phase of one attempt takes
	// longer either. Default: what [Patience] says.
	Patience time.Duration
	// PerHost is how many requests wait for one host's answer at a time, at
	// most. Default 64 at first, and slowly more, up to 96, at a host that has
	// answered thousands and never asked for less.
	PerHost int
	// Observe is told of every attempt that did not succeed. It is called by
	// several goroutines and must not block. May be nil.
	Observe func(Event)
}

// Transport is an [http.RoundTripper]. It is safe for concurrent use and keeps
// connections alive, so make one per process.
type Transport struct {
	config Config
	limits limits
	wires  wires
	hosts  hosts
	counts counters
	err    error // why no request will ever be sent
}

// New returns the transport that c describes. What the environment says wrongly
// is the error of every request.
func New(c Config) *Transport {
	if c.UserAgent == "" {
		c.UserAgent = "waybill"
	}
	if c.Attempts < 1 {
		c.Attempts = 10
	}
	t := &Transport{}
	t.hosts.first = c.PerHost
	if c.PerHost < 1 {
		t.hosts.first, c.PerHost = firstPerHost, mostPerHost
	}
	if c.Patience <= 0 {
		c.Patience, t.err = Patience()
	}
	t.config, t.limits = c, limitsOf(c.Patience)
	t.wires = wired(c, t.limits)
	t.hosts.most = c.PerHost
	return t
}

// Patience is how long one request is tried unless [Config.Patience] says
// otherwise: half a minute, or what the environment says.
func Patience() (time.Duration, error) {
	text := os.Getenv(PatienceVariable)
	if text == "" {
		return defaultPatience, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return defaultPatience, &verdict.UsageError{Err: fmt.Errorf("%s is %q: want a duration such as 90s", PatienceVariable, text)}
	}
	return d, nil
}

// limits are those of one attempt.
type limits struct {
	dial, tls, header time.Duration
	silence           time.Duration // longest pause within a body
	window            time.Duration // of reading, in which a body must bring bytesPerWindow
	firstWait         time.Duration // before the second attempt, doubled before each further
}

// limitsOf keeps each phase within the patience that there is.
func limitsOf(patience time.Duration) limits {
	return limits{
		dial:      min(10*time.Second, patience),
		tls:       min(10*time.Second, patience),
		header:    min(30*time.Second, patience),
		silence:   min(60*time.Second, patience),
		window:    min(30*time.Second, patience),
		firstWait: min(200*time.Millisecond, patience/16),
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.counts.requests.Add(1)
	way, err := t.way(req)
	if t.err != nil {
		err = t.err
	}
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := t.exchange(req, way, true)
	if err != nil {
		return nil, explained(err)
	}
	answered := resp.Request
	resp.Request = req
	if cameFromInside(answered) {
		resp.Request = req.WithContext(context.WithValue(req.Context(), viaInside{}, true))
	}
	t.continued(resp, req, way)
	return resp, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the contract of a RoundTripper
	}
}
