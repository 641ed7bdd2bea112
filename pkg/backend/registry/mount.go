package registry

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// mounter is a [Sink] that can link blobs that its registry already holds in
// another repository.
type mounter interface {
	mount(ctx context.Context, repo string, d Descriptor, from Source) (bool, error)
}

// mount links a blob of another repository of the same registry into repo
// (distribution specification, "Mounting a blob from another repository"). The
// registry's answer is verified by a lookup. If mounting is impossible the
// answer is false, and the blob is copied.
func (r *Remote) mount(ctx context.Context, repo string, d Descriptor, from Source) (bool, error) {
	src := remoteOf(from)
	if src == nil || r.unmountable.Load() {
		return false, nil
	}
	target, err := r.repository(repo)
	if err != nil {
		return false, err
	}
	origin, err := src.repository(repo)
	if err != nil || origin.RegistryStr() != target.RegistryStr() {
		return false, err
	}
	q := query{target: target, op: "mounting " + d.Digest.String(), path: "blobs/" + d.Digest.String()}
	if r.written.has(q) {
		return true, nil
	}
	s, err := r.session(ctx, target, ggcr.PushScope)
	if err != nil {
		return false, q.unavailable(err)
	}
	ask := url.Values{"mount": {d.Digest.String()}, "from": {origin.RepositoryStr()}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.Scheme()+"://"+target.RegistryStr()+"/v2/"+target.RepositoryStr()+"/blobs/uploads/?"+ask.Encode(), nil)
	if err != nil {
		return false, nil //nolint:nilerr // as below
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return false, nil //nolint:nilerr // the longer way finds out what is wrong
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, MaxManifest)) // drain it, so that the connection is reused
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		r.unmountable.Store(true)
		r.abandon(ctx, s, resp)
		return false, nil
	}
	there, err := r.holds(ctx, q)
	if err == nil && there {
		r.written.add(q)
	}
	return there, err
}

// abandon cancels an upload that a registry opened because it could not mount.
// An upload that cannot be cancelled expires in the registry.
func (r *Remote) abandon(ctx context.Context, s *session, begun *http.Response) {
	location, err := begun.Location()
	if begun.StatusCode != http.StatusAccepted || err != nil || !strings.EqualFold(location.Host, begun.Request.URL.Host) {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, location.String(), nil)
	if err != nil {
		return
	}
	if resp, err := s.client.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

// remoteOf returns the registry behind a source, if there is one.
func remoteOf(src Source) *Remote {
	switch s := src.(type) {
	case *Remote:
		return s
	case *Memory:
		return s.src
	}
	return nil
}
