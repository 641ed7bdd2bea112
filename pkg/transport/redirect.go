package transport

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
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
//     network, which only the operator may name;
//   - to another origin only with headers that carry no credentials.
//
// A public name that resolves to a private address is not noticed here.
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
	refuse := func(reason string) error {
		return &RedirectError{From: origin(first), To: origin(req.URL), Reason: reason}
	}
	if len(via) > maxRedirects {
		return refuse(fmt.Sprintf("more than %d redirects", maxRedirects))
	}
	if req.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https" {
		return refuse("it leaves https")
	}
	if req.URL.Scheme != "https" && Loopback(first.Hostname()) && !Loopback(req.URL.Hostname()) {
		return refuse("it leads to plain http on another machine")
	}
	if Internal(req.URL.Hostname()) && !Internal(first.Hostname()) {
		return refuse("it leads to an internal address")
	}
	if strays(first, req, via) {
		req.Header = harmless(req.Header)
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

// Loopback reports whether host (without port) is this machine by its
// spelling: "localhost" or a loopback address. Names are not resolved.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// Internal reports whether host (without port) is spelled as an address that
// means something else to each machine: loopback, private, link-local,
// unspecified or zoned. Names other than "localhost" are not resolved.
func Internal(host string) bool {
	if Loopback(host) {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return false
	}
	zoned := addr.Zone() != ""
	addr = addr.Unmap()
	return zoned || addr.IsPrivate() || addr.IsLinkLocalUnicast() || addr.IsUnspecified() || addr.IsMulticast()
}
