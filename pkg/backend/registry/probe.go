package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

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
