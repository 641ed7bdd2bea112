package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// ErrOffline is the error of every dial when [Config.Offline] is set. It
// reports itself as unavailability: the world was not asked.
var ErrOffline error = offlineError{}

type offlineError struct{}

func (offlineError) Error() string     { return "the network is switched off (offline)" }
func (offlineError) Unavailable() bool { return true }
func (offlineError) NextAct() string {
	return "leave out --offline, or name a place on this machine; nothing was decided"
}

// AddressError reports an address that was not dialled: it is of this machine
// or of a private network, and a stranger named it.
type AddressError struct {
	Host    string // as it was named
	Address string // what the name means here
}

// Error names both.
func (e *AddressError) Error() string {
	return fmt.Sprintf("dialling %q: it is %s, an internal address, and not the operator named it", e.Host, e.Address)
}

// Unavailable reports that the world was not asked.
func (e *AddressError) Unavailable() bool { return true }

// wires are the bottom: connections, without any second thoughts. Each has a
// pool of its own, so that nothing dialled by the lenient is used by the strict.
type wires struct {
	open    *http.Transport // for addresses that the operator named
	inner   *http.Transport // for addresses that an internal server named
	guarded *http.Transport // for addresses that anybody else named
}

// by is the wire for an address that somebody named.
func (w wires) by(who namer) *http.Transport {
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
	w := wires{open: with(nil), inner: with(refuseNowhere), guarded: with(refuseInternal)}
	if c.Certificate != nil {
		shows(w.open, c.Certificate)
	}
	return w
}

// shows has a certificate shown to whoever asks for one, whichever authorities
// it names: it says itself, by an alert, why it does not believe this one. That
// comes after the handshake, and net/http's HTTP/2 does not pass it on.
func shows(t *http.Transport, one *tls.Certificate) {
	t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return one, nil }
	t.ForceAttemptHTTP2, t.Protocols = false, new(http.Protocols)
	t.Protocols.SetHTTP1(true)
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// refuseInternal is asked of each address, after the name was resolved and
// before the first packet: nobody can answer differently in between.
func refuseInternal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || internal(to.Addr()) {
		return &AddressError{Address: address}
	}
	return nil
}

// refuseNowhere is the same question where an internal server named the
// address: it may lead to its neighbours, and not to the metadata of a cloud.
func refuseNowhere(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || nowhere(to.Addr()) {
		return &AddressError{Address: address}
	}
	return nil
}

// viaInside marks the request of an answer that came from an internal address.
type viaInside struct{}

// marked notes on an answer that it came from an internal address. Whoever
// answers for a proxy is not known.
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
// address: by the connection that it came over, whatever its name means at
// another time.
func cameFromInside(req *http.Request) bool {
	came, _ := req.Context().Value(viaInside{}).(bool)
	return came
}

// named adds what was asked for to what was refused.
func named(err error, host string) error {
	if refused, ok := asAddressError(err); ok {
		return &AddressError{Host: host, Address: refused.Address}
	}
	return err
}

// wire makes one pool of connections.
func wire(c Config, l limits, d dial) *http.Transport {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment, // never for loopback
		ProxyConnectHeader:    http.Header{"User-Agent": {c.UserAgent}},
		DialContext:           d,
		TLSClientConfig:       &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   l.tls,
		ResponseHeaderTimeout: l.header,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          max(256, 2*c.PerHost),
		MaxIdleConnsPerHost:   c.PerHost,
		IdleConnTimeout:       90 * time.Second,
		// A header of more is no header.
		MaxResponseHeaderBytes: 256 << 10,
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
