// Package transport sends every network request of the product.
//
// Requests to registries, buckets, certificate authority, log, timestamp
// authority and trust root all go through a [Transport]. It sets the deadline
// of each phase, the retries, the budget of each host, the rules for redirects,
// the proxy, and the offline switch:
//
//	rt := transport.New(transport.Config{UserAgent: "waybill/1.0"})
//	client := transport.Client(rt)
//
// What it promises:
//
//   - Dialling, the TLS handshake, the response header, each pause within a
//     body and the rate of a body have their own limits; no request hangs for
//     ever. [Config.Patience] limits the total time of one request.
//   - Retries are jittered, honour Retry-After (RFC 9110, 10.2.3) and GitHub's
//     X-RateLimit-Reset, and end with the request's context. Without time for another attempt, the last answer
//     is returned. A request is repeated only if it is idempotent (RFC 9110,
//     9.2.2, or [Repeatable]) or nothing of it was sent, and only if its body
//     can be read again.
//   - All workers share one budget per host: when it answers 429, or 403 with a
//     time after which to ask again, all of them wait, and then send fewer and
//     slower requests until it accepts more.
//   - The body of a GET that breaks off is continued there, if the server
//     identifies the same version; else it ends with an error, and so does a
//     body whose end cannot be told from a broken connection.
//   - Redirects obey the rules of [Client], also in clients of a library: the
//     transport sees which answer caused a request. An address that the operator
//     did not name is checked again when it is dialled, after its name was
//     resolved.
//   - HTTPS_PROXY, HTTP_PROXY and NO_PROXY are honoured, never for loopback. A
//     proxy that refuses a request is a [*ProxyError]; its password is never part
//     of an error. SSL_CERT_FILE is honoured by crypto/x509.
//   - Offline, every dial fails with [ErrOffline].
//
// It holds no credentials, cookies or cache. The body of a GET has no limit
// here, because its reader knows what to expect; other bodies have one, because
// libraries read them whole. An answer with an error status is an answer, not
// an error.
//
// Other projects should not import this package: it changes without notice.
package transport

import (
	"cmp"
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

// defaultPatience suits interactive use; a pipeline that must survive an outage
// sets more.
const defaultPatience = 30 * time.Second

// Config configures a [Transport]. The zero value is a sound default.
type Config struct {
	// UserAgent begins the User-Agent of every request; a library's own name
	// follows. Default "waybill".
	UserAgent string
	// Offline makes every dial fail with [ErrOffline], loopback included.
	Offline bool
	// Roots are the trusted certificate authorities; nil means those of the
	// system (and SSL_CERT_FILE).
	Roots *x509.CertPool
	// Certificate is the client certificate for servers at addresses that the
	// operator named; nil means none. Use such a transport for one server only.
	Certificate *tls.Certificate
	// Attempts is how often one request is sent at most. Attempts that the host
	// asked to delay are not counted: Patience limits them. Default 10.
	Attempts int
	// Patience is how long one request is tried in total, and the limit of each
	// phase of an attempt. A Retry-After beyond it ends the request. Default:
	// [Patience].
	Patience time.Duration
	// PerHost is how many requests wait for one host's answer at a time.
	// Default 64 at first, growing slowly up to 96 for a host that has answered
	// thousands and never asked for less; see also [Batched].
	PerHost int
	// Plain sends plain HTTP requests instead of the network, for simulations;
	// nil is the network.
	Plain http.RoundTripper
}

// Transport is an [http.RoundTripper]. It is safe for concurrent use and keeps
// connections alive, so make one per process.
type Transport struct {
	config Config
	limits limits
	wires  wires
	hosts  hosts
	err    error // why no request can ever be sent
}

// New returns a transport for c. An invalid environment variable becomes the
// error of every request.
func New(c Config) *Transport {
	c.UserAgent = cmp.Or(c.UserAgent, "waybill")
	if c.Attempts < 1 {
		c.Attempts = 10
	}
	t := &Transport{err: checkProxies()}
	t.hosts.first = c.PerHost
	if c.PerHost < 1 {
		t.hosts.first, c.PerHost = firstPerHost, mostPerHost
	}
	if c.Patience <= 0 {
		var err error
		if c.Patience, err = Patience(); t.err == nil {
			t.err = err
		}
	}
	t.config, t.limits = c, limitsOf(c.Patience)
	t.wires = wired(c, t.limits)
	t.hosts.most = c.PerHost
	return t
}

// Patience is how long one request is tried unless [Config.Patience] says
// otherwise: half a minute, or the value of the environment variable.
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

// limits are the limits of one attempt.
type limits struct {
	dial, tls, header time.Duration
	silence           time.Duration // longest pause within a body
	window            time.Duration // reading time in which a body must bring bytesPerWindow
	firstWait         time.Duration // before the second attempt, doubled before each further
}

// limitsOf keeps each phase within the patience.
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

// For returns a transport with the same configuration for one server of the
// operator, with its own authorities, and a client certificate or nil.
func (t *Transport) For(roots *x509.CertPool, certificate *tls.Certificate) *Transport {
	c := t.config
	c.Roots, c.Certificate = roots, certificate
	return New(c)
}
