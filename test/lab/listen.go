package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"time"
)

// The names of the services: keys of the remembered ports, argument of Stop.
const (
	serviceIssuer   = "issuer"
	serviceFulcio   = "fulcio"
	serviceCT       = "ct"
	serviceRekor    = "rekor"
	serviceRekorV1  = "rekorV1"
	serviceTSA      = "tsa"
	serviceTUF      = "tuf"
	serviceRegistry = "registry"
	serviceBucket   = "bucket"
	serviceModules  = "modules"
	serviceRekor2   = "rekor2"
	serviceTSA2     = "tsa2"
	serviceGitHub   = "github"
	serviceObjects  = "objects"
)

func services() []string {
	return []string{
		serviceIssuer, serviceFulcio, serviceCT, serviceRekor, serviceRekorV1,
		serviceTSA, serviceTUF, serviceRegistry, serviceBucket, serviceModules,
		serviceRekor2, serviceTSA2, serviceGitHub, serviceObjects,
	}
}

// ErrNotLoopback is the refusal to let anyone but this machine into a lab.
var ErrNotLoopback = errors.New("a lab lets anyone be anyone, so it listens on loopback only (127.0.0.1 or ::1)")

// loopback returns address if it is a loopback address literal. Names are
// refused, because what a name means is decided elsewhere.
func loopback(address string) (string, error) {
	if address == "" {
		return "127.0.0.1", nil
	}
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.IsLoopback() || ip.Zone() != "" {
		return "", fmt.Errorf("refusing to listen on %q: %w", address, ErrNotLoopback)
	}
	return ip.String(), nil
}

// servers are the lab's listeners, all opened before anything is served, so
// that every URL is known before the first service needs one.
type servers struct {
	host   string
	byName map[string]*server
}

type server struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{} // closed when Serve returned; nil before serve
}

// listen opens one listener for each service, on the remembered port if there
// is one: a lab that comes back elsewhere is another world.
func listen(host string, ports map[string]int) (*servers, error) {
	s := &servers{host: host, byName: map[string]*server{}}
	for _, name := range services() {
		addr := net.JoinHostPort(host, strconv.Itoa(ports[name]))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening the %s service's port %s: %w", name, addr, err), s.close())
		}
		s.byName[name] = &server{listener: ln}
	}
	return s, nil
}

func (s *servers) serve(name string, h http.Handler) {
	v := s.byName[name]
	v.http = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	v.done = make(chan struct{})
	go func() { // owns v.listener until Serve returns
		defer close(v.done)
		_ = v.http.Serve(v.listener) // always ErrServerClosed: only stop ends it
	}()
}

func (s *servers) address(name string) string { return s.byName[name].listener.Addr().String() }

func (s *servers) ports() map[string]int {
	out := map[string]int{}
	for name, v := range s.byName {
		out[name] = v.listener.Addr().(*net.TCPAddr).Port
	}
	return out
}

func (s *servers) urls() URLs {
	url := func(name string) string { return "http://" + s.address(name) }
	return URLs{
		Issuer: url(serviceIssuer), Fulcio: url(serviceFulcio), CT: url(serviceCT), Rekor: url(serviceRekor), RekorV1: url(serviceRekorV1),
		TSA: url(serviceTSA) + "/api/v1/timestamp", TUF: url(serviceTUF),
		Registry: s.address(serviceRegistry), Bucket: url(serviceBucket), Modules: url(serviceModules),
		Rekor2: url(serviceRekor2), TSA2: url(serviceTSA2), GitHub: url(serviceGitHub),
	}
}

// called sends requests to a handler by a call.
type called struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (c called) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, req)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// Handlers are the services of a lab by the host and port of their URL, for
// simulations, which have no network: from now on Fulcio calls the CT log, too.
func (l *Lab) Handlers() map[string]http.Handler {
	l.inside()
	all := map[string]http.Handler{}
	for name, v := range l.servers.byName {
		if v.http != nil {
			all[l.servers.address(name)] = v.http.Handler
		}
	}
	return all
}

// stop ends one service: requests in flight get a moment, then are cut.
func (s *servers) stop(name string) error {
	v, ok := s.byName[name]
	if !ok {
		panic(fmt.Sprintf("lab: no service %q", name))
	}
	if v.http == nil {
		err := v.listener.Close()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := v.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = v.http.Close()
	}
	<-v.done
	return err
}

func (s *servers) close() error {
	errs := make(chan error, len(s.byName))
	for name := range s.byName {
		go func() { errs <- s.stop(name) }()
	}
	var all []error
	for range s.byName {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}
