package registry

import (
	"context"
	"net/http"
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
