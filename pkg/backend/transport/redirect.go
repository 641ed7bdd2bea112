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
// A [Transport] enforces these rules itself, also for libraries with their own
// client.
func Client(rt http.RoundTripper) *http.Client {
	return &http.Client{Transport: rt, CheckRedirect: checkRedirect}
}

// RedirectError reports a redirect that was refused.
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
	if leavesOrigin(first, req, via) {
		if req.Body != nil && req.Body != http.NoBody {
			return &RedirectError{From: origin(first), To: origin(req.URL), Reason: "the redirect would send the request's body to another origin"}
		}
		req.Header = harmless(req.Header)
	}
	return nil
}

// mayLead refuses forbidden steps from one address to another that it named.
func mayLead(from, to *url.URL) error {
	refuse := func(reason string) error {
		return &RedirectError{From: origin(from), To: origin(to), Reason: reason}
	}
	switch {
	case to.Scheme != "https" && from.Scheme == "https":
		return refuse("the redirect leaves https")
	case to.Scheme != "https" && to.Scheme != "http":
		return refuse("the redirect leaves http and https")
	case to.Scheme != "https" && Loopback(from.Hostname()) && !Loopback(to.Hostname()):
		return refuse("the redirect leads to plain http on another machine")
	case strings.EqualFold(from.Hostname(), to.Hostname()):
		return nil
	case linkLocal(to.Hostname()), Internal(to.Hostname()) && !Internal(from.Hostname()):
		return refuse("the redirect leads to an internal address")
	}
	return nil
}

// leavesOrigin reports whether any hop has another origin than the first request.
func leavesOrigin(first *url.URL, req *http.Request, via []*http.Request) bool {
	return slices.ContainsFunc(append(slices.Clip(via), req), func(hop *http.Request) bool { return origin(hop.URL) != origin(first) })
}

// harmless keeps only the headers that any server may see. It is an allow-list:
// our own secret headers are not known by name here.
func harmless(h http.Header) http.Header {
	kept := http.Header{}
	for _, name := range []string{"Accept", "Accept-Encoding", "Range", "If-Range", "User-Agent"} {
		if values := h.Values(name); len(values) > 0 {
			kept[name] = values
		}
	}
	return kept
}

// origin returns scheme, host and port in canonical form.
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
	header http.Header // request sent instead, if not nil
	named  namer       // who named the address
}

// way decides how to send a request, and refuses forbidden ones.
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
	// A proxy dials for us, and the operator chose it.
	if proxy, err := http.ProxyFromEnvironment(req); t.config.Offline || err != nil || proxy == nil {
		w.named = nameOf(req, from, via)
	}
	return w, nil
}

// nameOf says who named the address of a request that the operator did not
// name. A server counts as internal if its address is spelled so, or if each
// answer that led here came over a connection to an internal address. Resolving
// its name again would prove nothing: the result may have changed.
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
		return nil, fmt.Errorf("sending a request without an address")
	}
	if via := hops(req); len(via) > 0 {
		return via[0].URL, nil
	}
	found, _ := req.Context().Value(foundBy{}).(finding)
	return found.home, nil
}

// hops returns the requests that led to this one by redirects, in order.
func hops(req *http.Request) (via []*http.Request) {
	for answer := req.Response; answer != nil && answer.Request != nil && len(via) <= maxRedirects; answer = answer.Request.Response {
		via = append(via, answer.Request)
	}
	slices.Reverse(via)
	return via
}

// foundBy is the context key of the address whose answers named another.
type foundBy struct{}

// finding is the address whose answers named another, and whether all of these
// answers came from an internal address.
type finding struct {
	home   *url.URL
	inside bool
}

// Within returns a transport for a library that follows addresses in the
// answers of home: where to upload, or where to get tokens. Each such address
// obeys the rules of a redirect from home, except that the library itself
// decides which credentials are for whom.
func Within(rt http.RoundTripper, home *url.URL) http.RoundTripper {
	return &within{next: rt, home: home}
}

type within struct {
	next http.RoundTripper
	home *url.URL
	// Where the answers of home came from. One from outside is enough to trust
	// none of them.
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
