package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Limits of a proxy.
const (
	maxTunnels = 64
	maxRefused = 20 // named refused hosts: a step can ask for any number of them
	maxHead    = 16 << 10
	dialTime   = 30 * time.Second
)

// proxy is the only way of a step to the network. It listens inside the
// step's network and dials outside; it supports only CONNECT, to declared
// hosts at public addresses.
type proxy struct {
	hosts  []string
	permit func(netip.Addr) error

	mu      sync.Mutex // owns the fields below
	asked   []Asked
	refused int // number of refused ones in asked
	more    int // refusals of hosts that are not in asked

	tunnels sync.WaitGroup
}

func newProxy(hosts []string) *proxy {
	return &proxy{hosts: hosts, permit: checkPublic}
}

// serve answers until the listener is closed or the context ends.
func (p *proxy) serve(ctx context.Context, l net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	defer p.tunnels.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	slots := make(chan struct{}, maxTunnels)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		slots <- struct{}{}
		p.tunnels.Go(func() {
			defer func() { <-slots }()
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			p.answer(ctx, c)
		})
	}
}

// answer reads one request and tunnels it.
func (p *proxy) answer(ctx context.Context, c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(dialTime)) // a listener without deadlines ignores it
	head := &io.LimitedReader{R: c, N: maxHead}
	in := bufio.NewReader(head)
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	host := strings.ToLower(req.Host)
	out, err := p.dial(ctx, req.Method, host)
	p.note(host, err)
	if err != nil {
		fmt.Fprintf(c, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nwaybill: %s: %v\n", harmless(host), err)
		return
	}
	defer out.Close()
	_ = c.SetReadDeadline(time.Time{})
	head.N = 1 << 62
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	p.tunnels.Go(func() {
		_, _ = io.Copy(out, in) // the other direction ends with this one
		if t, ok := out.(interface{ CloseWrite() error }); ok {
			_ = t.CloseWrite()
		}
	})
	_, _ = io.Copy(c, out) // errors of a tunnel are for its ends
	_ = c.Close()
}

// dial connects to a declared host. The address is checked when it is
// dialled, so a name cannot resolve differently between check and use.
func (p *proxy) dial(ctx context.Context, method, host string) (net.Conn, error) {
	if method != http.MethodConnect {
		return nil, errors.New("only CONNECT is supported; use https")
	}
	if !slices.Contains(p.hosts, host) {
		return nil, errors.New("the step did not declare this host")
	}
	d := net.Dialer{Timeout: dialTime, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address %q is invalid", address)
		}
		return p.permit(at.Addr())
	}}
	return d.DialContext(ctx, "tcp", host)
}

// note records a request, once for each host and answer, and only counts
// refusals after the first hosts.
func (p *proxy) note(host string, err error) {
	a := Asked{Host: host, Allowed: err == nil, Times: 1}
	if len(a.Host) > 300 {
		a.Host = a.Host[:300]
	}
	a.Host = harmless(a.Host)
	if err != nil {
		a.Reason = harmless(err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, old := range p.asked {
		if old.Host == a.Host && old.Allowed == a.Allowed {
			p.asked[i].Times++
			return
		}
	}
	if !a.Allowed {
		if p.refused == maxRefused {
			p.more++
			return
		}
		p.refused++
	}
	p.asked = append(p.asked, a) // permitted hosts were declared, so there are few
}

func (p *proxy) tell(r *Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Asked, r.RefusedMore = slices.Clone(p.asked), p.more
}

// notPublic are blocks that the standard library considers public and that are
// not: they lead into private networks, to services of a cloud, or contain
// such an address in another form.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),    // carriers, and one cloud's metadata
	netip.MustParsePrefix("168.63.129.16/32"), // one cloud's services to its machines
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments, metadata of another
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.88.99.0/24"),   // relays of 6to4
	netip.MustParsePrefix("198.18.0.0/15"),    // measurements
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, and broadcast
	netip.MustParsePrefix("::/96"),            // IPv4 in disguise
	netip.MustParsePrefix("64:ff9b::/96"),     // the same
	netip.MustParsePrefix("64:ff9b:1::/48"),   // the same
	netip.MustParsePrefix("100::/64"),         // nowhere
	netip.MustParsePrefix("2001::/23"),        // protocol assignments, Teredo
	netip.MustParsePrefix("2001:db8::/32"),    // documentation
	netip.MustParsePrefix("2002::/16"),        // 6to4
	netip.MustParsePrefix("fec0::/10"),        // sites
}

// checkPublic refuses every address that is not on the public network. It checks
// the address that is dialled, after name resolution.
func checkPublic(addr netip.Addr) error {
	addr = addr.Unmap()
	switch {
	case !addr.IsValid() || addr.Zone() != "":
		return fmt.Errorf("address %s is valid on one link only", addr)
	case addr.IsLoopback():
		return fmt.Errorf("address %s is this machine's", addr)
	case addr.IsLinkLocalUnicast():
		return fmt.Errorf("address %s is link-local, where metadata services are", addr)
	case addr.IsPrivate():
		return fmt.Errorf("address %s is private", addr)
	case !addr.IsGlobalUnicast():
		return fmt.Errorf("address %s is not of a host", addr)
	}
	for _, p := range notPublic {
		if p.Contains(addr) {
			return fmt.Errorf("address %s is in %s, which is not public", addr, p)
		}
	}
	return nil
}
