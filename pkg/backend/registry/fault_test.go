package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// nth spoils the nth request (from 1) of a method whose path has part.
func nth(method, part string, n int, spoil func(http.ResponseWriter, *http.Request, http.Handler)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		seen := 0
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == method && strings.Contains(r.URL.Path, part) {
				if seen++; seen == n || n == 0 {
					spoil(w, r, next)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

func fails(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(500) }

func failsButDoes(w http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	w.WriteHeader(500)
}

func saysSo(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(201)
}

// saysListed says that it lists a referrer, and forgets it.
func saysListed(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	var doc document
	_ = json.NewDecoder(r.Body).Decode(&doc)
	w.Header().Set("OCI-Subject", doc.Subject.Digest)
	w.WriteHeader(201)
}

// Rows 3 to 5: a write that fails is done again or found done; one that was
// lost is noticed before anything is built on it.
func TestWritesThatGoWrong(t *testing.T) {
	t.Setenv(transport.PatienceVariable, "300ms")
	for _, c := range []struct {
		name  string
		spoil func(http.Handler) http.Handler
		want  string
	}{
		{"nothing (twin)", nil, ""},
		{"a manifest fails once", nth("PUT", "/manifests/sha256:", 1, fails), ""},
		{"a manifest fails always, and is there", nth("PUT", "/manifests/sha256:", 0, failsButDoes), ""},
		{"a manifest fails always", nth("PUT", "/manifests/sha256:", 0, fails), "UNAVAILABLE"},
		{"a manifest is lost", nth("PUT", "/manifests/sha256:", 1, saysSo), "UNAVAILABLE"},
		{"a tag fails always, and is there", nth("PUT", "/manifests/v1", 0, failsButDoes), ""},
		{"a tag is lost", nth("PUT", "/manifests/v1", 0, saysSo), "UNAVAILABLE"},
		{"a blob begins once in vain", nth("POST", "/uploads/", 1, fails), ""},
		{"a blob begins always in vain", nth("POST", "/uploads/", 0, fails), "UNAVAILABLE"},
		{"a blob fails once", nth("PATCH", "/uploads/", 1, fails), ""},
		{"a blob fails at the end, and is there", nth("PUT", "/uploads/", 1, failsButDoes), ""},
		{"a tag is somebody else's at once", nth("PUT", "/manifests/v1", 0, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			other := r.Clone(r.Context())
			raw := `{"schemaVersion":2,"mediaType":"` + MediaTypeIndex + `","manifests":[]}`
			other.Header.Set("Content-Type", MediaTypeIndex)
			other.Body, other.ContentLength = io.NopCloser(strings.NewReader(raw)), int64(len(raw))
			next.ServeHTTP(httptest.NewRecorder(), other)
		}), "TAG_RACE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := serveThrough(t, c.spoil, transport.New(transport.Config{}))
			if err := released(t.Context(), r); code(err) != c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// released pushes an image of one blob, reads it back and tags it.
func released(ctx context.Context, r *Remote) error {
	config := blobOf("application/vnd.oci.image.config.v1+json", []byte(`{}`))
	err := r.PushBlob(ctx, "demo", config.Descriptor, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(`{}`)), nil })
	if err != nil {
		return err
	}
	raw := []byte(`{"schemaVersion":2,"mediaType":"` + MediaTypeManifest + `","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"` + config.Descriptor.Digest.String() + `","size":2},"layers":[]}`)
	d := blobOf(MediaTypeManifest, raw).Descriptor
	if err := r.PushManifest(ctx, "demo", d, raw); err != nil {
		return err
	}
	if _, err := Graph(ctx, r, "demo", d); err != nil {
		return err
	}
	return r.Tag(ctx, "demo", "v1", d)
}

// Row 17: what was just written may be seen late; what nobody wrote is missing
// at once.
func TestReadAfterWriteIsWaitedFor(t *testing.T) {
	missing := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(404) }
	late := func(next http.Handler) http.Handler {
		for n := 1; n <= 3; n++ {
			next = nth("GET", "/manifests/sha256:", 1, missing)(next)
		}
		return next
	}
	r := serveThrough(t, late, transport.New(transport.Config{}))
	if err := released(t.Context(), r); err != nil {
		t.Errorf("a registry that catches up: %v", err)
	}
	if _, err := r.Resolve(t.Context(), "demo", "v2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("what nobody wrote: %v", err)
	}
}

// A referrer that is lost is no part of the image that is read back.
func TestLostReferrerIsNoticed(t *testing.T) {
	t.Setenv(transport.PatienceVariable, "300ms")
	for _, c := range []struct {
		name  string
		spoil func(http.Handler) http.Handler
		want  string
	}{
		{"by a registry that says it lists it", nth("PUT", "/manifests/sha256:", 2, saysListed), "UNAVAILABLE"}, // the first is the image's own manifest
		{"again and again", nth("PUT", "/manifests/sha256:", 0, saysSo), "UNAVAILABLE"},
		{"once, by one that does not say it, and is sent it again", nth("PUT", "/manifests/sha256:", 2, saysSo), ""},
		{"never (twin)", nil, ""},
	} {
		r := serveThrough(t, c.spoil, transport.New(transport.Config{}), registry.WithReferrersSupport(true))
		d := image(t, r, "x")
		manifest, raw, blobs := BundleManifest(d, []byte("bundle"), "https://example.org/predicate/v1")
		for _, b := range blobs {
			push(t, r, b)
		}
		if err := r.PushManifest(t.Context(), "demo", manifest, raw); code(err) != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Row 14: the token expires in the middle of an upload; another is fetched, and
// the same bytes are sent again.
func TestTokenExpiresInTheMiddle(t *testing.T) {
	for _, part := range []string{"PATCH /uploads/", "PUT /uploads/", "PUT /manifests/", "GET /manifests/", "HEAD /blobs/"} {
		method, path, _ := strings.Cut(part, " ")
		r := serveThrough(t, expiring(method, path), transport.New(transport.Config{}))
		if err := released(t.Context(), r); err != nil {
			t.Errorf("expired at %s: %v", part, err)
		}
	}
}

// expiring asks for tokens, and takes none twice for the first request of a
// kind.
func expiring(method, part string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		tokens, expired := 0, false
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/token" {
				tokens++
				_, _ = io.WriteString(w, `{"token":"`+strings.Repeat("t", tokens)+`"}`)
				return
			}
			stale := r.Method == method && strings.Contains(r.URL.Path, part) && !expired
			expired = expired || stale
			if stale || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer t") {
				w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="demo"`)
				w.WriteHeader(401)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Row 15: a credential helper that hangs is left behind, and what one prints is
// not repeated.
func TestCredentialHelpers(t *testing.T) {
	t.Setenv(transport.PatienceVariable, "500ms")
	for _, c := range []struct{ name, script, want string }{
		{"answers (twin)", `echo '{"Username":"u","Secret":"hunter2"}'`, ""},
		{"prints garbage", "echo hunter2; exit 1", "not shown"},
		{"prints no JSON", "echo hunter2", "not shown"},
		{"hangs", `while [ -e "$0" ]; do sleep 0.05; done`, "does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := serveThrough(t, nil, transport.New(transport.Config{}))
			dir := t.TempDir()
			t.Setenv("DOCKER_CONFIG", dir)
			t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			host, _, _ := strings.Cut(r.Prefix(), "/")
			write(t, filepath.Join(dir, "config.json"), `{"credHelpers":{"`+host+`":"faulty"}}`, 0o600)
			helper := filepath.Join(dir, "docker-credential-faulty")
			write(t, helper, "#!/bin/sh\n"+c.script+"\n", 0o700)
			err := released(t.Context(), r)
			if err := os.Remove(helper); err != nil { // which ends it
				t.Fatal(err)
			}
			target, _ := r.repository("demo")
			_, _ = authn.DefaultKeychain.Resolve(target) // waits until the library is free again
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || code(err) != "UNAVAILABLE") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the secret is in %v", err)
			}
		})
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// A registry that sends the client elsewhere inside the network, with an upload
// or for a token, is not obeyed.
func TestAddressesInAnswersAreGuarded(t *testing.T) {
	home := newGuard(transport.New(transport.Config{Offline: true}), "registry.example")
	for address, want := range map[string]string{
		"https://169.254.169.254/latest":      "internal address",
		"https://10.0.0.1/upload":             "internal address",
		"http://blobs.example/upload":         "plain HTTP",
		"https://blobs.example/upload (twin)": "offline",
	} {
		req, err := http.NewRequest(http.MethodPatch, strings.TrimSuffix(address, " (twin)"), strings.NewReader("bytes"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := home.RoundTrip(req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

// A list of pages without end is refused by what they weigh together, of tags
// as of referrers; the same list that ends before that is read.
func TestListsWithoutEnd(t *testing.T) {
	subject := digest.Of(digest.SHA256, []byte("subject"))
	tag, referrer := `"`+strings.Repeat("t", 100)+`",`, `{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"`+subject.String()+`","size":1},`
	for name, row := range map[string]struct {
		part, first, each, last, media string
		ask                            func(*Remote) error
	}{
		"tags": {"/tags/list", `{"name":"demo","tags":[`, tag, `"last"]}`, "application/json", func(r *Remote) error {
			_, err := r.Tags(t.Context(), "demo")
			return err
		}},
		"referrers": {"/referrers/", `{"schemaVersion":2,"manifests":[`, referrer, strings.TrimSuffix(referrer, ",") + `]}`, MediaTypeIndex, func(r *Remote) error {
			_, err := r.Referrers(t.Context(), "demo", subject)
			return err
		}},
	} {
		for _, end := range []int{4, 1 << 20} {
			pages := 0
			page := row.first + strings.Repeat(row.each, 2<<20/len(row.each)) + row.last
			r := serveThrough(t, answer(row.part, func(w http.ResponseWriter, req *http.Request) {
				if pages++; pages < end {
					w.Header().Set("Link", fmt.Sprintf(`<%s?page=%d>; rel="next"`, req.URL.Path, pages))
				}
				w.Header().Set("Content-Type", row.media)
				_, _ = io.WriteString(w, page)
			}), transport.New(transport.Config{}))
			err := row.ask(r)
			if good := end == 4; (err == nil) != good || !good && (code(err) != "LIMIT" || pages > 17) {
				t.Errorf("%s, after %d pages: %v", name, pages, err)
			}
		}
	}
}

// Row 16: a list that goes round in a circle of several pages ends.
func TestListsThatGoRound(t *testing.T) {
	pages := 0
	r := serveThrough(t, answer("/tags/list", func(w http.ResponseWriter, req *http.Request) {
		pages++
		next := map[string]string{"": "a", "a": "b", "b": "c", "c": "a"}[req.URL.Query().Get("last")]
		w.Header().Set("Link", `</v2/team/demo/tags/list?n=1000&last=`+next+`>; rel="next"`)
		_, _ = io.WriteString(w, `{"tags":["v1"]}`)
	}), transport.New(transport.Config{}))
	if _, err := r.Tags(t.Context(), "demo"); code(err) != "UNAVAILABLE" || pages != 4 {
		t.Errorf("after %d pages: %v", pages, err)
	}
}
