package registry

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// maxSmall is the largest blob sent in one request: it covers every bundle and
// most configurations.
const maxSmall = 128 << 10

// pushSmall sends a small blob in one request (distribution specification,
// "Single POST"), where lookup, start, upload and end take four. A registry
// that rejects this is not tried again, and any failure is left to the longer
// way.
func (r *Remote) pushSmall(ctx context.Context, s *session, q query, d Descriptor, open func() (io.ReadCloser, error)) (taken bool, err error) {
	if d.Size > maxSmall || r.whole.Load() {
		return false, nil
	}
	body, err := open()
	if err != nil {
		return false, err
	}
	defer body.Close()
	raw, err := io.ReadAll(verified(body, "source of "+q.target.Name(), d))
	if err != nil {
		return false, err
	}
	post := query{target: q.target, method: http.MethodPost, path: "blobs/uploads/?digest=" + url.QueryEscape(d.Digest.String())}
	resp, err := post.send(ctx, s, raw, "application/octet-stream")
	if err != nil {
		return false, nil
	}
	switch resp.StatusCode {
	case http.StatusCreated:
		r.written.add(q)
		return true, nil
	case http.StatusAccepted:
		r.whole.Store(true)
	}
	return false, nil
}
