package registry

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// TestAhead: whatever a decision asks of an image was asked ahead, and nothing
// is asked twice for that.
func TestAhead(t *testing.T) {
	var asked, down atomic.Int64
	r := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			asked.Add(1)
			if down.Load() > 0 && req.URL.Path != "/v2/" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			next.ServeHTTP(w, req)
		})
	}, registry.WithReferrersSupport(false))
	root, children := index(t, r, "v1")
	all := append([]Descriptor{root}, children...)
	for i, d := range all {
		attach(t, r, d, `{"one":`+string(rune('0'+i))+`}`)
		attach(t, r, d, `{"two":`+string(rune('0'+i))+`}`)
	}
	decide := func(m *Memory) (bundles int, err error) {
		d, err := m.Resolve(t.Context(), "demo", root.Digest.String())
		if err != nil {
			return 0, err
		}
		graph, err := Graph(t.Context(), m, "demo", d)
		if err != nil {
			return 0, err
		}
		return bundles, graph.Walk(func(n *Node) error {
			found, err := Bundles(t.Context(), m, "demo", n.Descriptor.Digest)
			bundles += len(found)
			return errors.Join(err, CheckPlatform(t.Context(), m, "demo", n))
		})
	}
	count := func(m *Memory) int64 {
		t.Helper()
		before := asked.Load()
		if n, err := decide(m); n != 2*len(all) || err != nil {
			t.Fatalf("%d bundles, %v", n, err)
		}
		return asked.Load() - before
	}
	inOrder := count(Remember(r, false))

	before, m := asked.Load(), Remember(r, false)
	ctx, a, end := m.ahead(t.Context(), "demo")
	a.bundles(ctx, root.Digest)
	a.manifests(ctx, root.Digest)
	a.wait.Wait()
	end()
	if n := asked.Load() - before; n != inOrder {
		t.Errorf("ahead, %d requests were made, and %d in order", n, inOrder)
	}
	if n := count(m); n != 0 {
		t.Errorf("%d requests were left", n)
	}

	// Whoever ends early leaves nothing behind, and decides all the same.
	m = Remember(r, false)
	m.Ahead(t.Context(), "demo", root.Digest)()
	count(m)

	// What is not there ahead is not there.
	down.Store(1)
	fresh, err := OpenRemote(r.Prefix(), http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	m = Remember(fresh, false)
	defer m.Ahead(t.Context(), "demo", root.Digest)()
	if _, err := decide(m); !errors.Is(err, ErrNotFound) {
		t.Errorf("of what is not there: %v", err)
	}
}
