package registry

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// errLost is the cause when a registry accepted something and does not have it.
var errLost = errors.New("the registry accepted the write, but does not have the object")

// rememberedWrites is the minimum number of remembered writes, and half of the
// maximum: far more than are under way at once, and little memory in a
// promotion of any size.
const rememberedWrites = 4096

// written remembers what a registry recently accepted. If the registry then
// answers that it lacks the object, it is stale or lost the object: the request
// is repeated until the patience ends.
type written struct {
	mu             sync.Mutex // guards the fields below
	lately, before map[string]bool
	busy           map[string]chan struct{} // closed when a push ends
}

func (w *written) add(q query) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lately) >= rememberedWrites {
		w.lately, w.before = nil, w.lately
	}
	if w.lately == nil {
		w.lately = map[string]bool{}
	}
	w.lately[q.key()] = true
}

func (w *written) has(q query) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lately[q.key()] || w.before[q.key()]
}

func (q query) key() string { return q.target.Name() + "/" + q.path }

// waitForPush waits until no other goroutine pushes the object of q. Then either the
// object exists, or the caller must push it and report when that is done.
func (w *written) waitForPush(ctx context.Context, q query) (there bool, done func(), err error) {
	key := q.key()
	for {
		w.mu.Lock()
		other := w.busy[key]
		switch {
		case w.lately[key] || w.before[key]:
			w.mu.Unlock()
			return true, nil, nil
		case other == nil:
			mine := make(chan struct{})
			if w.busy == nil {
				w.busy = map[string]chan struct{}{}
			}
			w.busy[key] = mine
			w.mu.Unlock()
			return false, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				delete(w.busy, key)
				close(mine)
			}, nil
		}
		w.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return false, nil, q.unavailable(context.Cause(ctx))
		}
	}
}

// ask sends q and returns the answer if its status is 200. It waits for objects
// that this registry accepted.
func (r *Remote) ask(ctx context.Context, q query) (*http.Response, error) {
	patience, _ := transport.Patience() // a wrong value is reported by the transport
	begun, wait := time.Now(), min(100*time.Millisecond, patience/16)
	for {
		resp, err := r.askOnce(ctx, q)
		if !errors.Is(err, ErrNotFound) || !r.written.has(q) {
			return resp, err
		}
		if time.Since(begun)+wait > patience {
			return nil, q.unavailable(errLost)
		}
		if err := transport.Sleep(ctx, wait); err != nil {
			return nil, q.unavailable(err)
		}
		wait *= 2
	}
}

// holds asks whether the registry has the object of q.
func (r *Remote) holds(ctx context.Context, q query) (bool, error) {
	q.method = http.MethodHead
	resp, err := r.ask(ctx, q)
	switch {
	case err == nil:
		return true, resp.Body.Close()
	case errors.Is(err, ErrNotFound):
		return false, nil
	}
	return false, err
}

// finishWrite decides how a write ended. A failed write may have been done all
// the same; a successful one may be lost, and is looked up if no caller does so
// later.
func (r *Remote) finishWrite(ctx context.Context, q query, failed error, look bool) error {
	if _, ok := errors.AsType[*verdict.UnavailableError](failed); failed != nil && !ok {
		return failed // the source is at fault
	}
	if failed != nil {
		if there, err := r.holds(ctx, q); err != nil || !there {
			return failed
		}
	}
	r.written.add(q)
	if !look {
		return nil
	}
	_, err := r.holds(ctx, q)
	return err
}

// checkTagged checks that a tag names the digest that was written.
func (r *Remote) checkTagged(ctx context.Context, repo, tag string, d Descriptor) error {
	held, err := r.Resolve(ctx, repo, tag)
	if err != nil {
		return err
	}
	if !held.Digest.Equal(d.Digest) {
		return TagRace(repo+":"+tag, d.Digest, held.Digest)
	}
	return nil
}

// Holds asks whether a registry has a blob. A recently accepted blob may take a
// while to appear, so it is awaited.
func (r *Remote) Holds(ctx context.Context, repo string, d Descriptor) (bool, error) {
	target, err := r.repository(repo)
	if err != nil {
		return false, err
	}
	return r.holds(ctx, query{target: target, op: "looking for " + d.Digest.String(), path: "blobs/" + d.Digest.String()})
}
