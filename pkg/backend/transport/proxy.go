package transport

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ProxyError reports that a proxy did not pass a request on.
type ProxyError struct {
	Proxy  string // host and port, without credentials
	Status string // its answer
	code   int
}

// Error names the proxy and its answer.
func (e *ProxyError) Error() string {
	return fmt.Sprintf("the proxy %s answered %q", e.Proxy, e.Status)
}

// Unavailable reports that the server was not reached.
func (e *ProxyError) Unavailable() bool { return true }

// NextAct is what to do about the answer.
func (e *ProxyError) NextAct() string {
	if e.code == http.StatusProxyAuthRequired {
		return "set HTTPS_PROXY (or HTTP_PROXY) to http://USER:PASSWORD@" + e.Proxy + " with valid credentials, or list the host in NO_PROXY; nothing was decided"
	}
	return "ask the operators of the proxy to permit the host and port, or list the host in NO_PROXY; nothing was decided"
}

// refusedTunnel is the error of a CONNECT that the proxy did not accept.
func refusedTunnel(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	switch {
	case resp.StatusCode == http.StatusOK:
		return nil
	case resp.StatusCode >= http.StatusInternalServerError:
		return nil // net/http reports it, and it may pass
	}
	return &ProxyError{Proxy: proxy.Host, Status: resp.Status, code: resp.StatusCode}
}

// refusedByProxy is the error of an answer by the proxy itself, where no tunnel
// separates its answers from those of the server.
func refusedByProxy(resp *http.Response, proxyOf func(*http.Request) (*url.URL, error)) error {
	if resp.StatusCode != http.StatusProxyAuthRequired || proxyOf == nil {
		return nil
	}
	proxy, err := proxyOf(resp.Request)
	if err != nil || proxy == nil {
		return nil //nolint:nilerr // a server that was asked directly answered so
	}
	discard(resp)
	return &ProxyError{Proxy: proxy.Host, Status: resp.Status, code: resp.StatusCode}
}

// checkProxies refuses an address of a proxy that net/http would ignore: every
// request would bypass the proxy. The address is not printed, because it may
// contain a password.
func checkProxies() error {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		text := os.Getenv(name)
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			u, err = url.Parse("http://" + text)
		}
		if text != "" && (err != nil || u.Host == "") {
			return &verdict.UsageError{Err: fmt.Errorf("%s is not the address of a proxy: want http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, where any other characters than letters and digits are written as %%XX", name)}
		}
	}
	return nil
}
