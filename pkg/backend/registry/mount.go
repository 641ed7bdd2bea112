package registry

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// mounter is a [Sink] that can link blobs that its registry already holds in
// another repository.
type mounter interface {
	mount(ctx context.Context, repo string, d Descriptor, from Source) error
}

// mount links a blob of another repository of the same registry into repo
// (distribution specification, "Mounting a blob from another repository"). The
// registry's answer is verified by a lookup. A blob that is there is recorded as
// written, so that it is not pushed; another one must be copied.
func (r *Remote) mount(ctx context.Context, repo string, d Descriptor, from Source) error {
	src := remoteOf(from)
	if src == nil || r.unmountable.Load() {
		return nil
	}
	target, err := r.repository(repo)
	if err != nil {
		return err
	}
	origin, err := src.repository(repo)
	if err != nil || origin.RegistryStr() != target.RegistryStr() {
		return err
	}
	q := query{target: target, op: "mounting " + d.Digest.String(), path: "blobs/" + d.Digest.String()}
	there, done, err := r.written.waitForPush(ctx, q)
	if there || err != nil {
		return err
	}
	defer done()
	s, err := r.session(ctx, target, ggcr.PushScope)
	if err != nil {
		return q.unavailable(err)
	}
	ask := url.Values{"mount": {d.Digest.String()}, "from": {origin.RepositoryStr()}}
	resp, err := query{target: target, method: http.MethodPost, path: "blobs/uploads/?" + ask.Encode()}.send(ctx, s, nil, "")
	if err != nil {
		return nil // the longer way finds out what is wrong
	}
	if resp.StatusCode != http.StatusCreated {
		r.unmountable.Store(true)
		s.abandon(ctx, resp)
		return nil
	}
	if there, err = r.holds(ctx, q); err == nil && there {
		r.written.add(q)
	}
	return err
}

// abandon cancels an upload that a registry opened, because it could not mount or
// was only asked for it. One that cannot be cancelled expires in the registry.
func (s *session) abandon(ctx context.Context, begun *http.Response) {
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
