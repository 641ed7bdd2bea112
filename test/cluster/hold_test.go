package cluster_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/promotionplan"
)

// doorway stands before the registry of the destinations. It passes requests on,
// and holds up the writes of one tag, so that something can happen while a shard is
// in the middle of its work.
type doorway struct {
	host string

	mu   sync.Mutex    // guards the fields below
	tag  string        // whose writing is held up, or whose reading
	read bool          // the reading
	held chan struct{} // closed when that is there
	open chan struct{} // closed when it is no longer held up
	away bool          // answers 503
	// wrote counts the writes of each tag that were passed on.
	wrote map[string]int
}

func newDoorway(t *testing.T, to string) *doorway {
	t.Helper()
	d := &doorway{wrote: map[string]int{}}
	pass := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: to}) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Location", strings.ReplaceAll(r.Header.Get("Location"), to, d.host))
			return nil
		},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.isAway() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if !d.passes(t.Context(), r) {
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	d.host = strings.TrimPrefix(srv.URL, "http://")
	return d
}

func (d *doorway) isAway() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.away
}

func (d *doorway) goAway(is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = is
}

// hold has the writes of a tag held up. It returns what is closed when the first is
// there, and what lets them pass.
func (d *doorway) hold(tag string) (held <-chan struct{}, open func()) { return d.holdUp(tag, false) }

// holdReads is hold of what reads a tag, before that is written.
func (d *doorway) holdReads(tag string) (held <-chan struct{}, open func()) {
	return d.holdUp(tag, true)
}

func (d *doorway) holdUp(tag string, read bool) (held <-chan struct{}, open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tag, d.read, d.held, d.open = tag, read, make(chan struct{}), make(chan struct{})
	return d.held, sync.OnceFunc(func() { close(d.open) })
}

func (d *doorway) passes(test context.Context, r *http.Request) bool {
	_, tag, _ := strings.Cut(r.URL.Path, "/manifests/v")
	if !d.opens(test, r) {
		return false
	}
	if r.Method == http.MethodPut && tag != "" {
		d.mu.Lock()
		d.wrote["v"+tag]++
		d.mu.Unlock()
	}
	return true
}

// opens waits while what a request writes is held up, and reports whether somebody
// still waits for the answer then.
func (d *doorway) opens(test context.Context, r *http.Request) bool {
	d.mu.Lock()
	held, open := d.held, d.open
	meant := d.tag != "" && (r.Method == http.MethodPut) != d.read && strings.HasSuffix(r.URL.Path, "/manifests/"+d.tag)
	if meant {
		select {
		case <-held:
		default:
			close(held)
		}
	}
	d.mu.Unlock()
	if !meant {
		return true
	}
	select {
	case <-open:
		return r.Context().Err() == nil
	case <-r.Context().Done():
	case <-test.Done():
	}
	return false
}

// once fails the test unless each tag of the plan was written once.
func (f *fleet) once() {
	f.t.Helper()
	f.door.mu.Lock()
	defer f.door.mu.Unlock()
	for _, e := range f.plan.Edges {
		if n := f.door.wrote[e.Tags[0]]; n != 1 {
			f.t.Errorf("tag %s was written %d times", e.Tags[0], n)
		}
	}
}

// tagsOf are the tags of the images of a shard.
func (f *fleet) tagsOf(shard, shards int) (tags []string) {
	for _, e := range f.plan.Edges {
		if (promotionplan.Shard{Index: shard, Of: shards}).Takes(e.Digest) {
			tags = append(tags, e.Tags...)
		}
	}
	return tags
}

// lastOf is a shard of several images, and the tag of its last.
func (f *fleet) lastOf(shards int) (shard, tag string) {
	f.t.Helper()
	for i := range shards {
		if tags := f.tagsOf(i, shards); len(tags) > 1 {
			return strconv.Itoa(i), tags[len(tags)-1]
		}
	}
	f.t.Fatal("no shard has several images")
	return "", ""
}

// shardOf is the shard of the image with a tag.
func (f *fleet) shardOf(tag string, shards int) string {
	f.t.Helper()
	for i := range shards {
		if slices.Contains(f.tagsOf(i, shards), tag) {
			return strconv.Itoa(i)
		}
	}
	f.t.Fatalf("the plan has no tag %s", tag)
	return ""
}
