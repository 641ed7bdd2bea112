package registry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// ReadLater is a registry whose user reads back everything written, referrers
// included, before relying on it: a referrer that the registry confirms to list
// is then not looked up after each write.
type ReadLater struct{ *Remote }

// PushManifest implements [Sink].
func (r ReadLater) PushManifest(ctx context.Context, repo string, d Descriptor, raw []byte) error {
	return r.pushManifest(ctx, repo, d, raw, false)
}

// putReferrer writes a manifest that refers to another. A registry with the
// referrers API confirms that in its answer (distribution specification,
// "Pushing Manifests with Subject"). One that does not is not tried again in
// this way: the library detects whether it has the API, and else keeps the
// list. Failures are left to that longer way as well.
func (r *Remote) putReferrer(ctx context.Context, q query, subject string, m rawManifest) (listed bool) {
	if r.listless.Load() {
		return false
	}
	s, err := r.session(ctx, q.target, ggcr.PushScope)
	if err != nil {
		return false
	}
	q.method = http.MethodPut
	resp, err := q.send(ctx, s, m.raw, m.mediaType)
	if err != nil {
		return false
	}
	if resp.StatusCode != http.StatusCreated {
		return false
	}
	listed = resp.Header.Get("OCI-Subject") == subject
	r.listless.Store(!listed)
	return listed
}

// referrersOf returns the mutex to hold while the referrers of one subject
// change.
func (r *Remote) referrersOf(subject string) *sync.Mutex {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.subjects[subject] == nil {
		r.subjects[subject] = &sync.Mutex{}
	}
	return r.subjects[subject]
}

// Parcel is a manifest with the blobs that must be pushed before it, as
// [HintedManifest] and [AttachedManifest] make them.
type Parcel struct {
	Descriptor Descriptor
	Raw        []byte
	Blobs      []Blob
}

// PushTo writes all of it, except what is there already.
func (p Parcel) PushTo(ctx context.Context, to Sink, repo string) error {
	for _, b := range p.Blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		if err := to.PushBlob(ctx, repo, b.Descriptor, open); err != nil {
			return err
		}
	}
	return to.PushManifest(ctx, repo, p.Descriptor, p.Raw)
}

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
