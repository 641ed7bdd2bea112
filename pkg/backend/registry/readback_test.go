package registry

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// gathering holds back every answer until so many are asked for.
type gathering struct {
	mu   sync.Mutex // guards want
	want int
	all  chan struct{}
}

func (g *gathering) spoil(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		if g.want--; g.want == 0 {
			close(g.all)
		}
		held := g.want >= 0
		g.mu.Unlock()
		if held {
			select {
			case <-g.all:
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
}

// copied is an image of two platforms with a bundle for each manifest, as it
// was copied to a registry whose answers pass through spoil from then on.
func copied(t *testing.T, spoil func(http.Handler) http.Handler) (*Remote, Copied) {
	t.Helper()
	src := serve(t, nil, registry.WithReferrersSupport(true))
	root, children := index(t, src, "v1")
	for _, d := range append([]Descriptor{root}, children...) {
		attach(t, src, d, "about "+d.Digest.String())
	}
	var mu sync.Mutex // guards through
	through := func(next http.Handler) http.Handler { return next }
	dst := serveThrough(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			handler := through(next)
			mu.Unlock()
			handler.ServeHTTP(w, r)
		})
	}, transport.New(transport.Config{}), registry.WithReferrersSupport(true))
	c, err := Copy(t.Context(), dst, src, "demo", root)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	through = spoil
	return dst, c
}

// Three manifests, and as many lists and blobs as may be, are read back at the
// same time.
func TestReadBackIsAtOnce(t *testing.T) {
	g := &gathering{want: 3 + readBackAtOnce, all: make(chan struct{})}
	dst, c := copied(t, g.spoil)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := ReadBack(ctx, dst, "demo", c); err != nil {
		t.Error(err)
	}
}

// What a registry does not show is told by what it is; and that a manifest is
// lost comes first, whatever else is not shown.
func TestReadBackMisses(t *testing.T) {
	t.Setenv(transport.PatienceVariable, "200ms")
	gone := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusNotFound) }
	none := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", MediaTypeIndex)
		_, _ = w.Write([]byte(`{"schemaVersion":2,"mediaType":"` + MediaTypeIndex + `","manifests":[]}`))
	}
	other := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		w.Header().Set("Content-Type", MediaTypeManifest)
		_, _ = w.Write([]byte(strings.Repeat(" ", 100)))
	}
	hidden := nth("GET", "/referrers/", 0, none)
	for _, c := range []struct {
		name  string
		spoil func(http.Handler) http.Handler
		want  string
	}{
		{"nothing (twin)", nth("GET", "/nothing/", 0, gone), ""},
		{"a child", nth("GET", "/manifests/sha256:", 1, gone), ""}, // once, and it catches up
		{"all manifests", nth("GET", "/manifests/sha256:", 0, gone), "UNAVAILABLE"},
		{"a manifest that is another", nth("GET", "/manifests/sha256:", 1, other), "TAMPERED"},
		{"the evidence", hidden, "REPLICA_DRIFT"},
		{"the blobs", nth("HEAD", "/blobs/", 0, gone), "UNAVAILABLE"},
		{"a manifest that is another, and the evidence", func(next http.Handler) http.Handler {
			return nth("GET", "/manifests/sha256:", 1, other)(hidden(next))
		}, "TAMPERED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex // guards handler, which counts
			var handler http.Handler
			dst, made := copied(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					if handler == nil {
						handler = c.spoil(next)
					}
					handler.ServeHTTP(w, r)
				})
			})
			if err := ReadBack(t.Context(), dst, "demo", made); code(err) != c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
