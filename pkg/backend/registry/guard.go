package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

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
	if req.Body == nil || req.GetBody == nil {
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

// MayPush checks that the push credentials for repo are accepted, and changes
// nothing. A registry may accept them and still refuse the push: only
// [Remote.ProbePush] finds that out.
func (r *Remote) MayPush(ctx context.Context, repo string) error {
	target, err := r.repository(repo)
	if err != nil {
		return err
	}
	q := query{target: target, op: "asking to push"}
	_, err = r.session(ctx, target, ggcr.PushScope)
	return q.denied(err)
}

// ProbePush opens the upload of a blob to repo and cancels it (distribution
// specification, "Pushing a blob in chunks", "Cancelling"). In registries that
// cannot cancel, the upload expires.
func (r *Remote) ProbePush(ctx context.Context, repo string) error {
	target, err := r.repository(repo)
	if err != nil {
		return err
	}
	q := query{target: target, op: "beginning an upload"}
	s, err := r.session(ctx, target, ggcr.PushScope)
	if err != nil {
		return q.denied(err)
	}
	q.method, q.path = http.MethodPost, "blobs/uploads/"
	begun, err := q.send(ctx, s, nil, "")
	if err != nil {
		return q.unavailable(err)
	}
	if err := ggcr.CheckError(begun, http.StatusAccepted); err != nil {
		return q.denied(err)
	}
	s.abandon(ctx, begun)
	return nil
}

// denied tells a denial from an unavailable registry.
func (q query) denied(err error) error {
	if said, is := errors.AsType[*ggcr.Error](err); is {
		switch said.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed:
			return fmt.Errorf("%s at %q: %w: %w", q.op, q.target.Name(), fs.ErrPermission, advised(err, q.target.RegistryStr()))
		}
	}
	if err != nil {
		return q.unavailable(err)
	}
	return nil
}
