package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

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
	base := &url.URL{Scheme: target.Scheme(), Host: target.RegistryStr(), Path: "/v2/" + target.RepositoryStr() + "/blobs/uploads/"}
	begun, err := send(ctx, s.client, http.MethodPost, base)
	if err != nil {
		return q.unavailable(err)
	}
	defer begun.Body.Close()
	if err := ggcr.CheckError(begun, http.StatusAccepted); err != nil {
		return q.denied(err)
	}
	where, err := base.Parse(begun.Header.Get("Location"))
	if err == nil && where.Host == base.Host && where.Path != base.Path {
		cancel(ctx, s.client, where)
	}
	return nil
}

// cancel is best effort: an unused upload expires.
func cancel(ctx context.Context, client *http.Client, where *url.URL) {
	if cancelled, err := send(ctx, client, http.MethodDelete, where); err == nil {
		_ = cancelled.Body.Close()
	}
}

// send sends a request without a body. The caller closes the answer's body.
func send(ctx context.Context, client *http.Client, method string, to *url.URL) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, to.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}

// denied tells a denial from an unavailable registry.
func (q query) denied(err error) error {
	var said *ggcr.Error
	if errors.As(err, &said) {
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
