package registry

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// errLost is the cause when a registry took something and does not have it.
var errLost = errors.New("the registry took it, and does not have it")

// rememberedWrites is how many writes are remembered at least, and half of how
// many at most: far more than are under way at once, and little memory however
// large a promotion is.
const rememberedWrites = 4096

// written remembers what a registry said lately that it took. That it does not
// have it is then no answer but a contradiction: it has not caught up, or it
// lost it. It is asked again as long as there is patience.
type written struct {
	mu             sync.Mutex // owns the rest
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

// alone waits until nobody pushes what q names. It is there then, or it is for
// the caller to push it, and to say when that is done.
func (w *written) alone(ctx context.Context, q query) (there bool, done func(), err error) {
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

// ask sends q and returns the answer if it is 200. What this registry took is
// waited for.
func (r *Remote) ask(ctx context.Context, q query) (*http.Response, error) {
	patience, _ := transport.Patience() // a wrong one is the transport's error
	begun, wait := time.Now(), min(100*time.Millisecond, patience/16)
	for {
		resp, err := r.askOnce(ctx, q)
		if !errors.Is(err, ErrNotFound) || !r.written.has(q) {
			return resp, err
		}
		if time.Since(begun)+wait > patience {
			return nil, q.unavailable(errLost)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, q.unavailable(context.Cause(ctx))
		}
		wait *= 2
	}
}

// holds asks whether the registry has what q names.
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

// settle decides how a write ended. One that failed may have been done all the
// same; one that succeeded may be lost, and is looked for if nobody else does.
func (r *Remote) settle(ctx context.Context, q query, failed error, look bool) error {
	var down *UnavailableError
	if failed != nil && !errors.As(failed, &down) {
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

// named checks that a tag names what it was made to name.
func (r *Remote) named(ctx context.Context, repo, tag string, d Descriptor) error {
	held, err := r.Resolve(ctx, repo, tag)
	if err != nil {
		return err
	}
	if !held.Digest.Equal(d.Digest) {
		return &TagError{Tag: repo + ":" + tag, Want: d.Digest, Got: held.Digest}
	}
	return nil
}

// Holds asks whether a registry has a blob. What it said that it took, it is
// given time to show.
func (r *Remote) Holds(ctx context.Context, repo string, d Descriptor) (bool, error) {
	target, err := r.repository(repo)
	if err != nil {
		return false, err
	}
	return r.holds(ctx, query{target: target, op: "looking for " + d.Digest.String(), path: "blobs/" + d.Digest.String()})
}
