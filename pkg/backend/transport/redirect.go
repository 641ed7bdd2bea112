package transport

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

// maxRedirects is how many redirects one request may take.
const maxRedirects = 5

// Client returns a client over rt that follows redirects carefully:
//
//   - at most five of them;
//   - never from https to http;
//   - never from this machine to plain http on another: plain http is allowed
//     here because nothing leaves the machine;
//   - never from a public name to an address of this machine or of a private
//     network, which only the operator may name, by spelling or by what a name
//     resolves to; never to a link-local address at all;
//   - to another origin only without a body and with headers that carry no
//     credentials.
//
// A [Transport] holds these rules itself, so that a library with a client of
// its own keeps them too.
func Client(rt http.RoundTripper) *http.Client {
	return &http.Client{Transport: rt, CheckRedirect: checkRedirect}
}

// RedirectError reports a redirect that was not followed.
type RedirectError struct {
	From, To string // origins
	Reason   string
}

// Error names both ends and the reason.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("following redirect from %q to %q: %s", e.From, e.To, e.Reason)
}

// checkRedirect implements the rules of [Client].
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxRedirects {
		return &RedirectError{From: origin(first), To: origin(req.URL), Reason: fmt.Sprintf("more than %d redirects", maxRedirects)}
	}
	if err := mayLead(via[len(via)-1].URL, req.URL); err != nil {
		return err
	}
	if err := mayLead(first, req.URL); err != nil {
		return err
	}
	if strays(first, req, via) {
		if req.Body != nil && req.Body != http.NoBody {
			return &RedirectError{From: origin(first), To: origin(req.URL), Reason: "it would carry the request's body to another origin"}
		}
		req.Header = harmless(req.Header)
	}
	return nil
}

// mayLead refuses to go from one address to another that it named.
func mayLead(from, to *url.URL) error {
	refuse := func(reason string) error {
		return &RedirectError{From: origin(from), To: origin(to), Reason: reason}
	}
	switch {
	case to.Scheme != "https" && from.Scheme == "https":
		return refuse("it leaves https")
	case to.Scheme != "https" && to.Scheme != "http":
		return refuse("it leaves http")
	case to.Scheme != "https" && Loopback(from.Hostname()) && !Loopback(to.Hostname()):
		return refuse("it leads to plain http on another machine")
	case strings.EqualFold(from.Hostname(), to.Hostname()):
		return nil
	case linkLocal(to.Hostname()), Internal(to.Hostname()) && !Internal(from.Hostname()):
		return refuse("it leads to an internal address")
	}
	return nil
}

// strays reports whether any hop of the way has another origin than the first.
func strays(first *url.URL, req *http.Request, via []*http.Request) bool {
	for _, hop := range via {
		if origin(hop.URL) != origin(first) {
			return true
		}
	}
	return origin(req.URL) != origin(first)
}

// harmless keeps the headers that any stranger may see. An allow-list: a
// header of our own that carries a secret is not known by name here.
func harmless(h http.Header) http.Header {
	kept := http.Header{}
	for _, name := range []string{"Accept", "Accept-Encoding", "Range", "If-Range", "User-Agent"} {
		if values := h.Values(name); len(values) > 0 {
			kept[name] = values
		}
	}
	return kept
}

// origin is scheme, host and port, in one spelling.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	case u.Scheme == "http":
		port = "80"
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// way is how a request is sent.
type way struct {
	header http.Header // in place of the request's own
	named  namer       // who named the address
}

// way decides how to send a request, and refuses those that must not be.
func (t *Transport) way(req *http.Request) (way, error) {
	from, err := t.origin(req)
	if err != nil {
		return way{}, err
	}
	w := way{header: req.Header.Clone(), named: operator}
	if w.header == nil {
		w.header = http.Header{}
	}
	via := hops(req)
	if len(via) > 0 {
		judged := &http.Request{URL: req.URL, Header: w.header, Body: req.Body}
		if err := checkRedirect(judged, via); err != nil {
			return way{}, err
		}
		w.header = judged.Header
	}
	if from == nil || strings.EqualFold(from.Hostname(), req.URL.Hostname()) {
		return w, nil
	}
	// A proxy dials in our place, and is where the operator wants it.
	if proxy, err := http.ProxyFromEnvironment(req); t.config.Offline || err != nil || proxy == nil {
		w.named = nameOf(req, from, via)
	}
	return w, nil
}

// nameOf says who named the address of a request that the operator did not
// name. A server counts as internal by how it was spelled, or if each answer
// that led here came over a connection to an internal address: what its name
// meant at some other time says nothing.
func nameOf(req *http.Request, from *url.URL, via []*http.Request) namer {
	switch {
	case Internal(from.Hostname()):
		return insider
	case len(via) > 0:
		for _, hop := range via {
			if !cameFromInside(hop) {
				return stranger
			}
		}
		return insider
	}
	if found, _ := req.Context().Value(foundBy{}).(finding); found.inside {
		return insider
	}
	return stranger
}

// origin is the address whose answer named the request's, nil if the operator
// did.
func (t *Transport) origin(req *http.Request) (*url.URL, error) {
	if req.URL == nil {
		return nil, fmt.Errorf("sending a request: it has no address")
	}
	if via := hops(req); len(via) > 0 {
		return via[0].URL, nil
	}
	found, _ := req.Context().Value(foundBy{}).(finding)
	return found.home, nil
}

// hops are the requests that led to this one by redirects, the first first.
func hops(req *http.Request) (via []*http.Request) {
	for answer := req.Response; answer != nil && answer.Request != nil && len(via) <= maxRedirects; answer = answer.Request.Response {
		via = append(via, answer.Request)
	}
	slices.Reverse(via)
	return via
}

// foundBy is the key of the address in whose answers another was found.
type foundBy struct{}

// finding is the address in whose answers another was found, and whether all of
// them came from an internal address.
type finding struct {
	home   *url.URL
	inside bool
}

// Within returns a transport for a library that goes where the answers of home
// point: the place of an upload, the service that gives out tokens. What holds
// for a redirect from home holds for each such address, but that the library
// says itself which credentials are for whom.
func Within(rt http.RoundTripper, home *url.URL) http.RoundTripper {
	return &within{next: rt, home: home}
}

type within struct {
	next http.RoundTripper
	home *url.URL
	// Where the answers of home came from. One from outside is enough to
	// believe none of them.
	inside, outside atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (w *within) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.EqualFold(req.URL.Hostname(), w.home.Hostname()) {
		resp, err := w.next.RoundTrip(req)
		if err == nil && resp.Request != nil {
			if cameFromInside(resp.Request) {
				w.inside.Store(true)
			} else {
				w.outside.Store(true)
			}
		}
		return resp, err
	}
	if err := mayLead(w.home, req.URL); err != nil {
		closeBody(req)
		return nil, err
	}
	found := finding{home: w.home, inside: w.inside.Load() && !w.outside.Load()}
	return w.next.RoundTrip(req.WithContext(context.WithValue(req.Context(), foundBy{}, found)))
}
