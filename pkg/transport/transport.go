// Package transport is the one way to the network.
//
// Every HTTP request of the product goes through a [http.RoundTripper] made
// by [New]: registries, buckets, certificate authority, log, timestamps and
// the trust root alike. It owns the deadlines of each phase, the retries and
// the proxy rules, and the switch that forbids the network altogether:
//
//	rt := transport.New(transport.Config{UserAgent: "waybill/1.0"})
//	client := transport.Client(rt) // adds the redirect rules
//
// What it promises:
//
//   - Dialling, the TLS handshake, the response header and each silence within
//     a body have a deadline of their own; no request hangs for ever.
//   - Retries are few, jittered, honour Retry-After (RFC 9110, 10.2.3) and end
//     with the request's context. A request is repeated only if repeating it
//     is harmless (RFC 9110, 9.2.2) and its body can be read again.
//   - HTTPS_PROXY, HTTP_PROXY and NO_PROXY are honoured, never for loopback.
//     SSL_CERT_FILE is honoured by crypto/x509; [LoadRoots] adds a file.
//   - Offline, every dial fails with [ErrOffline].
//
// It owns no credentials and no cache, and does not limit the size of a
// response: the reader knows what it expects. An answer with an error status
// is an answer, not an error.
package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// Deadlines of the phases of one attempt.
const (
	dialTimeout   = 10 * time.Second
	tlsTimeout    = 10 * time.Second
	headerTimeout = 30 * time.Second
	silence       = 60 * time.Second // longest pause within a response body
)

// ErrOffline is the error of every dial when [Config.Offline] is set. It
// reports itself as unavailability: the world was not asked.
var ErrOffline error = offlineError{}

type offlineError struct{}

func (offlineError) Error() string     { return "the network is switched off (offline)" }
func (offlineError) Unavailable() bool { return true }

// Config says how to reach the world. The zero value is a sound default.
type Config struct {
	// UserAgent is sent with requests that name none. Default "waybill".
	UserAgent string
	// Offline makes every dial fail with [ErrOffline], loopback included.
	Offline bool
	// Roots are the certificate authorities to believe; nil means those of
	// the system (and SSL_CERT_FILE). See [LoadRoots].
	Roots *x509.CertPool
	// Attempts is how often one request is sent at most. Default 4.
	Attempts int
	// MaxWait is the longest single pause before another attempt. A server
	// that asks for more by Retry-After is not asked again. Default 30 s.
	MaxWait time.Duration
}

// New returns the transport that c describes. It is safe for concurrent use
// and keeps connections alive, so make one per process.
func New(c Config) http.RoundTripper {
	if c.UserAgent == "" {
		c.UserAgent = "waybill"
	}
	if c.Attempts < 1 {
		c.Attempts = 4
	}
	if c.MaxWait <= 0 {
		c.MaxWait = 30 * time.Second
	}
	return &retrier{
		next:      &watched{next: wire(c), silence: silence},
		userAgent: c.UserAgent,
		attempts:  c.Attempts,
		maxWait:   c.MaxWait,
		firstWait: 200 * time.Millisecond,
	}
}

// LoadRoots returns the system's certificate authorities and those in the PEM
// file, for [Config.Roots].
func LoadRoots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading certificate authorities: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's certificate authorities: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading certificate authorities: no PEM certificate in %q", file)
	}
	return pool, nil
}

// wire is the bottom: connections, without any second thoughts.
func wire(c Config) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment, // never for loopback
		DialContext:           dialer.DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   tlsTimeout,
		ResponseHeaderTimeout: headerTimeout,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
	}
	if c.Offline {
		t.Proxy = nil
		t.DialContext = refuseDial
		t.DialTLSContext = refuseDial
	}
	return t
}

func refuseDial(_ context.Context, _, address string) (net.Conn, error) {
	return nil, fmt.Errorf("dialling %q: %w", address, ErrOffline)
}
