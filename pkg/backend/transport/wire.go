package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// ErrOffline is the error of every dial when [Config.Offline] is set. It counts
// as unavailable: no request was sent.
var ErrOffline error = offlineError{}

type offlineError struct{}

func (offlineError) Error() string     { return "the network is switched off (offline)" }
func (offlineError) Unavailable() bool { return true }
func (offlineError) NextAct() string {
	return "leave out --offline, or name a place on this machine; nothing was decided"
}

// AddressError reports an address that was not dialled: it belongs to this
// machine or to a private network, and was not named by the operator.
type AddressError struct {
	Host    string // as named
	Address string // the address that the name resolves to here
}

// Error names both.
func (e *AddressError) Error() string {
	return fmt.Sprintf("dialling %q: it resolves to the internal address %s, which only the operator may name", e.Host, e.Address)
}

// Unavailable reports that no request was sent.
func (e *AddressError) Unavailable() bool { return true }

// wires are the connection pools. Each trust level has its own, so that a
// connection allowed for one is never reused for a stricter one.
type wires struct {
	open    *http.Transport // for addresses that the operator named
	inner   *http.Transport // for addresses that an internal server named
	guarded *http.Transport // for addresses that any other server named
}

// wireFor returns the wire for an address by who named it.
func (w wires) wireFor(who namer) *http.Transport {
	switch who {
	case operator:
		return w.open
	case insider:
		return w.inner
	}
	return w.guarded
}

// namer is who named an address. The zero value is trusted least.
type namer uint8

const (
	stranger namer = iota
	insider        // a server at an internal address
	operator
)

func wired(c Config, l limits) wires {
	with := func(control func(network, address string, _ syscall.RawConn) error) *http.Transport {
		d := &net.Dialer{Timeout: l.dial, KeepAlive: 30 * time.Second, Control: control}
		return wire(c, l, func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := d.DialContext(ctx, network, address)
			return conn, named(err, address)
		})
	}
	w := wires{open: with(nil), inner: with(refuseNeverValid), guarded: with(refuseInternal)}
	if c.Certificate != nil {
		presenting(w.open, c.Certificate)
	}
	return w
}

// presenting presents a client certificate to every server that requests one,
// whichever authorities it lists: a server that rejects the certificate then
// says why, in an alert. The alert comes after the handshake, and net/http's
// HTTP/2 does not report it.
func presenting(t *http.Transport, one *tls.Certificate) {
	t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return one, nil }
	t.ForceAttemptHTTP2, t.Protocols = false, new(http.Protocols)
	t.Protocols.SetHTTP1(true)
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// refuseInternal checks each address after the name was resolved and before the
// first packet, so that a second resolution cannot differ.
func refuseInternal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || internal(to.Addr()) {
		return &AddressError{Address: address}
	}
	return nil
}

// refuseNeverValid is the check for addresses that an internal server named:
// they may be its neighbours, but not the metadata service of a cloud.
func refuseNeverValid(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || neverValid(to.Addr()) {
		return &AddressError{Address: address}
	}
	return nil
}

// viaInside marks the request of an answer that came from an internal address.
type viaInside struct{}

// marked records on an answer that it came from an internal address. Behind a
// proxy this is unknown.
func marked(resp *http.Response, remote net.Addr) {
	if resp.Request == nil || remote == nil {
		return
	}
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil || !internal(at.Addr()) {
		return
	}
	if proxy, err := http.ProxyFromEnvironment(resp.Request); err != nil || proxy != nil {
		return
	}
	resp.Request = resp.Request.WithContext(context.WithValue(resp.Request.Context(), viaInside{}, true))
}

// cameFromInside reports whether the answer to a request came from an internal
// address: by its connection, because its name may resolve differently later.
func cameFromInside(req *http.Request) bool {
	came, _ := req.Context().Value(viaInside{}).(bool)
	return came
}

// named adds the requested host to a refusal.
func named(err error, host string) error {
	if refused, ok := errors.AsType[*AddressError](err); ok {
		return &AddressError{Host: host, Address: refused.Address}
	}
	return err
}

// wire makes one connection pool.
func wire(c Config, l limits, d dial) *http.Transport {
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment, // never for loopback
		ProxyConnectHeader:     http.Header{"User-Agent": {c.UserAgent}},
		OnProxyConnectResponse: refusedTunnel,
		DialContext:            d,
		TLSClientConfig:        &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    l.tls,
		ResponseHeaderTimeout:  l.header,
		ExpectContinueTimeout:  time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           2 * max(c.PerHost, mostBatched),
		MaxIdleConnsPerHost:    max(c.PerHost, mostBatched),
		IdleConnTimeout:        90 * time.Second,
		// A larger header is refused.
		MaxResponseHeaderBytes: 256 << 10,
	}
	if c.Plain != nil {
		t.RegisterProtocol("http", c.Plain)
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
