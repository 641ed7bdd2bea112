package registry

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// guard applies our rules to the requests of a registry library. Addresses that
// the registry sends the library to are checked against the registry's own
// address.
type guard struct{ next http.RoundTripper }

func newGuard(rt http.RoundTripper, host string) *guard {
	home := &url.URL{Scheme: "https", Host: host}
	if transport.Loopback(home.Hostname()) {
		home.Scheme = "http"
	}
	rt = transport.RepeatableIf(rt, opensUpload)
	return &guard{next: transport.Within(rt, home)}
}

// opensUpload matches the requests that only open an upload.
func opensUpload(req *http.Request) bool {
	return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/blobs/uploads/")
}

// RoundTrip implements [http.RoundTripper]. The library treats more hosts as
// local than just this machine.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !transport.Loopback(req.URL.Hostname()) {
		return nil, fmt.Errorf("speaking to %q: plain HTTP is allowed on this machine only", req.URL.Host)
	}
	req, err := unread(req)
	if err != nil {
		return nil, err
	}
	resp, err := g.next.RoundTrip(req)
	// Judge by the original request, not by where the registry redirects.
	if err == nil && !strings.Contains(firstOf(req).URL.Path, "/blobs/") {
		resp.Body = &short{ReadCloser: resp.Body, left: 2 * MaxManifest, most: 2 * MaxManifest}
	}
	return resp, err
}

// unread gives a request a body that can be sent again: when a token has
// expired, the library fetches another and repeats the request with its body.
func unread(req *http.Request) (*http.Request, error) {
	if req.Body == nil || req.Body == http.NoBody || req.GetBody == nil {
		return req, nil
	}
	if up, ok := req.Body.(*upload); ok && !up.used {
		up.used = true
		return req, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("reading a body again: %w", err)
	}
	_ = req.Body.Close()
	again := req.WithContext(req.Context())
	again.Body = body
	return again, nil
}

// upload is the body of a blob, and records whether it was already sent.
type upload struct {
	io.ReadCloser
	used bool
}

// short limits answers that a library reads whole; only blobs may be long.
type short struct {
	io.ReadCloser
	left, most int64
}

// Read implements [io.Reader].
func (s *short) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.left -= int64(n); s.left < 0 {
		return n, fmt.Errorf("reading an answer of the registry: more than %d bytes", s.most)
	}
	return n, err
}
