package coverage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	served "github.com/google/go-containerregistry/pkg/registry"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// yard is a registry that is served over HTTP, and what it was asked.
type yard struct {
	host string
	all  *registry.Remote

	mu       sync.Mutex // owns the rest
	asked    []string
	now, max int // requests at the same time
	spoil    func(http.ResponseWriter, *http.Request, http.Handler)
}

func open(t *testing.T) *yard {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // nobody's credentials
	y := &yard{}
	next := served.New(served.Logger(log.New(io.Discard, "", 0)), served.WithReferrersSupport(true))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		y.mu.Lock()
		y.asked = append(y.asked, r.Method+" "+r.URL.Path)
		y.now++
		y.max = max(y.max, y.now)
		spoil := y.spoil
		y.mu.Unlock()
		defer func() { y.mu.Lock(); y.now--; y.mu.Unlock() }()
		if spoil != nil {
			spoil(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	y.host = strings.TrimPrefix(srv.URL, "http://")
	var err error
	if y.all, err = registry.OpenRemote(y.host, http.DefaultTransport); err != nil {
		t.Fatal(err)
	}
	return y
}

// image pushes a manifest of its own for each text, under tags.
func (y *yard) image(t *testing.T, path, text string, tags ...string) digest.Digest {
	t.Helper()
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[],"annotations":{"is":%q}}`, registry.MediaTypeIndex, text)
	d := registry.Descriptor{MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if err := y.all.PushManifest(t.Context(), path, d, raw); err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		if err := y.all.Tag(t.Context(), path, tag, d); err != nil {
			t.Fatal(err)
		}
	}
	return d.Digest
}

// public opens repositories of the yard, as an audit does.
func (y *yard) public(paths ...string) *registries {
	r := Registries{Transport: transport.New(transport.Config{})}
	for _, p := range paths {
		r.Repositories = append(r.Repositories, y.host+"/"+p)
	}
	return r.open()
}

// names are images as a test writes them: PATH TAG,TAG.
func (y *yard) names(l Listed) (images, empty []string) {
	for _, i := range l.Images {
		images = append(images, strings.TrimPrefix(i.Repository, y.host+"/")+" "+strings.Join(i.Tags, ","))
	}
	for _, e := range l.Empty {
		empty = append(empty, strings.TrimPrefix(e, y.host+"/"))
	}
	return images, empty
}

// by has a registry answer otherwise; nil has it answer itself.
func (y *yard) by(spoil func(http.ResponseWriter, *http.Request, http.Handler)) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.spoil = spoil
}

// forget is what was asked until now.
func (y *yard) forget() []string {
	y.mu.Lock()
	defer y.mu.Unlock()
	asked := y.asked
	y.asked, y.max = nil, 0
	return asked
}

var everything = feature.Scope{Everything: true}

// TestImages: every tag of what the scope covers is an image, each digest once,
// and evidence is none.
func TestImages(t *testing.T) {
	y := open(t)
	a := y.image(t, "prod/lantern", "a", "v0.1.0", "latest")
	y.image(t, "prod/lantern", "b", "v0.0.9")
	y.image(t, "prod/lantern/debug", "a", "v0.1.0")
	y.image(t, "prod/sealed", "evidence", "sha256-"+a.Hex(), "sha256-"+a.Hex()+".sig", "sha256-"+a.Hex()+".att")
	y.image(t, "test/lantern", "c", "v0.1.0", "sha256-"+strings.Repeat("a", 63), "sha256-"+a.Hex()+"-mine")
	all := []string{"prod/lantern", "prod/lantern/debug", "test/lantern"}
	for name, row := range map[string]struct {
		public []string
		scope  []string // none is everything
		images []string
		empty  []string
	}{
		"everything": {public: all, images: []string{
			"prod/lantern v0.0.9", "prod/lantern latest,v0.1.0", "prod/lantern/debug v0.1.0",
			"test/lantern sha256-" + a.Hex() + "-mine,sha256-" + strings.Repeat("a", 63) + ",v0.1.0",
		}},
		"named twice":            {public: []string{"prod/lantern/debug", "prod/lantern/debug"}, images: []string{"prod/lantern/debug v0.1.0"}},
		"what lies beneath":      {public: all, scope: []string{"prod"}, images: []string{"prod/lantern v0.0.9", "prod/lantern latest,v0.1.0", "prod/lantern/debug v0.1.0"}},
		"one of them":            {public: all, scope: []string{"prod/lantern/debug"}, images: []string{"prod/lantern/debug v0.1.0"}},
		"no image, but evidence": {public: []string{"prod/lantern/debug", "prod/sealed"}, images: []string{"prod/lantern/debug v0.1.0"}, empty: []string{"prod/sealed"}},
		"a part of the scope that covers nothing": {
			public: all, scope: []string{"prod/lantern/debug", "prud"},
			images: []string{"prod/lantern/debug v0.1.0"}, empty: []string{"prud"},
		},
		"nothing is public": {},
	} {
		t.Run(name, func(t *testing.T) {
			scope := everything
			if row.scope != nil {
				scope = feature.Scope{}
				for _, s := range row.scope {
					scope.Repositories = append(scope.Repositories, y.host+"/"+s)
				}
			}
			listed, err := y.public(row.public...).Images(t.Context(), scope)
			images, empty := y.names(listed)
			slices.Sort(images)
			slices.Sort(row.images)
			if err != nil || !slices.Equal(images, row.images) || !slices.Equal(empty, row.empty) {
				t.Errorf("images %q, empty %q, %v", images, empty, err)
			}
		})
	}
	listed, err := y.public("prod/lantern").Images(t.Context(), everything)
	if err != nil || !slices.ContainsFunc(listed.Images, func(i Image) bool { return i.Digest.Equal(a) && len(i.Tags) == 2 }) {
		t.Errorf("%v, %v: no image of the bytes that were pushed", listed, err)
	}
}

// TestImagesUndecided: what cannot be listed to its end is an error that names it,
// and no shorter list.
func TestImagesUndecided(t *testing.T) {
	y := open(t)
	y.image(t, "prod/a", "a", "v1", "v2")
	y.image(t, "prod/b", "b", "v1")
	on := func(method, part string, do http.HandlerFunc) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == method && strings.HasSuffix(r.URL.Path, part) {
				do(w, r)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, row := range map[string]struct {
		public []string
		spoil  func(http.ResponseWriter, *http.Request, http.Handler)
		limit  int
		says   string
		code   verdict.Code
	}{
		"the twin":                  {public: []string{"prod/a", "prod/b"}},
		"as many as there may be":   {public: []string{"prod/a", "prod/b"}, limit: 3},
		"one that is not there":     {public: []string{"prod/a", "prod/c"}, says: "/prod/c: the repository or tag does not exist", code: verdict.PlaceDown},
		"one that keeps its door":   {public: []string{"prod/a", "prod/b"}, spoil: on("GET", "prod/b/tags/list", status(http.StatusForbidden)), says: "/prod/b: the audit needs a complete list"},
		"a list that is none":       {public: []string{"prod/a"}, spoil: on("GET", "prod/a/tags/list", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"tags":["v1"`) }), says: "/prod/a: the audit needs a complete list"},
		"a tag that is gone by now": {public: []string{"prod/a"}, spoil: on("HEAD", "prod/a/manifests/v2", status(http.StatusNotFound)), says: "/prod/a:v2: the repository or tag does not exist", code: verdict.PlaceDown},
		"a page that is missing": {public: []string{"prod/a"}, spoil: on("GET", "prod/a/tags/list", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery != "" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			w.Header().Set("Link", `</v2/prod/a/tags/list?last=v1>; rel="next"`)
			_, _ = io.WriteString(w, `{"tags":["v1"]}`)
		}), says: "/prod/a: the audit needs a complete list"},
		"more than there may be": {public: []string{"prod/a", "prod/b"}, limit: 2, says: "3 tags so far, the limit is 2", code: verdict.Limit},
		"no registry":            {public: []string{"prod/a", "../b"}, says: "the audit needs a complete list"},
	} {
		t.Run(name, func(t *testing.T) {
			y.by(row.spoil)
			defer y.by(nil)
			public := y.public(row.public...)
			if row.limit > 0 {
				public.limit = row.limit
			}
			listed, err := public.Images(t.Context(), everything)
			switch {
			case row.says == "":
				if err != nil || len(listed.Images) != 2 {
					t.Errorf("%v, %v", listed, err)
				}
			case err == nil || !strings.Contains(err.Error(), row.says) || len(listed.Images) > 0:
				t.Errorf("%v, %v; want %q", listed, err, row.says)
			case row.code != "" && verdict.FindingOf("", err).Code != row.code:
				t.Errorf("%v; want %s", err, row.code)
			}
		})
	}
}

// TestImagesPages: a list of many pages is read to its end, and where the registry
// says in the list what the tags name nothing else is asked.
func TestImagesPages(t *testing.T) {
	y := open(t)
	y.image(t, "prod/a", "a", "v1", "v2", "v3")
	b := y.image(t, "prod/a", "b", "v4", "v5")
	y.by(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			next.ServeHTTP(w, r)
			return
		}
		pages := map[string]string{"": "v1", "v1": "v2", "v2": "v3", "v3": "v4", "v4": "v5"}
		name := pages[r.URL.Query().Get("last")]
		if name != "v5" {
			w.Header().Set("Link", `</v2/prod/a/tags/list?last=`+name+`>; rel="next"`)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "prod/a", "tags": []string{name}})
	})
	y.forget()
	listed, err := y.public("prod/a").Images(t.Context(), everything)
	if images, _ := y.names(listed); err != nil || !slices.Equal(images, []string{"prod/a v1,v2,v3", "prod/a v4,v5"}) {
		t.Errorf("%q, %v", images, err)
	}
	if n := len(y.forget()); n != 1+5+5 {
		t.Errorf("%d requests; want one for the registry, and one for each page and each tag", n)
	}
	y.by(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			next.ServeHTTP(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"tags": []string{"v4", "v5"}, "manifest": map[string]any{b.String(): map[string]any{"tag": []string{"v4", "v5"}}},
		})
	})
	listed, err = y.public("prod/a").Images(t.Context(), everything)
	if images, _ := y.names(listed); err != nil || !slices.Equal(images, []string{"prod/a v4,v5"}) || !listed.Images[0].Digest.Equal(b) {
		t.Errorf("%q, %v", images, err)
	}
	if asked := y.forget(); len(asked) != 2 {
		t.Errorf("%q", asked)
	}
}

// TestImagesMany: a repository of many tags is asked for some at a time, and not
// at all once nobody wants to know.
func TestImagesMany(t *testing.T) {
	const tags = 300
	y := open(t)
	for n := range tags {
		y.image(t, "prod/a", fmt.Sprint(n), fmt.Sprintf("v%d", n))
	}
	y.forget()
	listed, err := y.public("prod/a").Images(t.Context(), everything)
	y.mu.Lock()
	asked, most := len(y.asked), y.max
	y.mu.Unlock()
	if err != nil || len(listed.Images) != tags || most > atOnce || asked != 2+tags {
		t.Errorf("%d images, %d requests, %d at the same time, %v", len(listed.Images), asked, most, err)
	}
	y.forget()
	ctx, cancel := context.WithCancel(t.Context())
	y.by(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodHead {
			cancel()
		}
		next.ServeHTTP(w, r)
	})
	if _, err := y.public("prod/a").Images(ctx, everything); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := len(y.forget()); n > 2+2*atOnce {
		t.Errorf("%d requests after it was called off", n)
	}
}
