package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrOffline is the error of every dial when [Config.Offline] is set. It
// reports itself as unavailability: the world was not asked.
var ErrOffline error = offlineError{}

type offlineError struct{}

func (offlineError) Error() string     { return "the network is switched off (offline)" }
func (offlineError) Unavailable() bool { return true }

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
	guarded *http.Transport // for addresses that a stranger named
	inside  *inside
}

// inside remembers which hosts turned out to be internal when they were dialled.
type inside struct {
	mu    sync.Mutex // owns hosts
	hosts map[string]bool
}

func (i *inside) add(host string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hosts[strings.ToLower(host)] = true
}

// has reports whether a host is internal, by its spelling or as it was dialled.
func (i *inside) has(host string) bool {
	if Internal(host) {
		return true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hosts[strings.ToLower(host)]
}

func wired(c Config, l limits) wires {
	w := wires{inside: &inside{hosts: map[string]bool{}}}
	lenient := &net.Dialer{Timeout: l.dial, KeepAlive: 30 * time.Second}
	strict := &net.Dialer{Timeout: l.dial, KeepAlive: 30 * time.Second, Control: refuseInternal}
	w.open = wire(c, l, w.inside.watch(lenient))
	if c.Certificate != nil {
		shows(w.open, c.Certificate)
	}
	w.guarded = wire(c, l, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := strict.DialContext(ctx, network, address)
		return conn, named(err, address)
	})
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

// watch dials, and remembers what is internal.
func (i *inside) watch(d *net.Dialer) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if to, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && internal(to.Addr()) {
			if host, _, err := net.SplitHostPort(address); err == nil {
				i.add(host)
			}
		}
		return conn, nil
	}
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
