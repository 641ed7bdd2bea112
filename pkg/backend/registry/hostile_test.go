package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// flip changes one byte of every answer to a GET whose path has part.
func flip(part string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
				next.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			for key, values := range rec.Header() {
				w.Header()[key] = values
			}
			w.WriteHeader(rec.Code)
			body := rec.Body.Bytes()
			if len(body) > 10 {
				body[len(body)-2] ^= 1
			}
			_, _ = w.Write(body)
		})
	}
}

func TestFlippedBytesAreTampered(t *testing.T) {
	image := func(p *Remote) Descriptor { return image(t, p, "a layer of many bytes") }
	for _, part := range []string{"/manifests/", "/blobs/", "/nothing/ (twin)"} {
		r := serve(t, flip(part))
		d := image(r)
		graph, err := Graph(t.Context(), r, "demo", d)
		if _, byDigest := r.Resolve(t.Context(), "demo", d.Digest.String()); part == "/manifests/" && code(byDigest) != "TAMPERED" {
			t.Errorf("resolving by digest: %v, want TAMPERED", byDigest)
		}
		if err == nil {
			_, err = VerifyBlobs(t.Context(), r, "demo", graph)
		}
		want := "TAMPERED"
		if strings.Contains(part, "twin") {
			want = ""
		}
		if code(err) != want {
			t.Errorf("flipped in %s: %v, want %q", part, err, want)
		}
	}
}

// answer lets a registry answer one path in another way.
func answer(part string, handler http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, part) {
				handler(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func TestErrorsAreUnavailability(t *testing.T) {
	for _, status := range []int{401, 403, 500, 503} {
		r := serve(t, answer("/demo/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		d := blobOf(MediaTypeManifest, []byte("{}")).Descriptor
		_, resolveErr := r.Resolve(t.Context(), "demo", "v1")
		_, fetchErr := read(t.Context(), r, d)
		_, tagsErr := r.Tags(t.Context(), "demo")
		_, referrersErr := r.Referrers(t.Context(), "demo", d.Digest)
		for _, err := range []error{resolveErr, fetchErr, tagsErr, referrersErr} {
			var down *verdict.UnavailableError
			if !errors.As(err, &down) || code(err) != "UNAVAILABLE" {
				t.Errorf("status %d: %v, want an UnavailableError", status, err)
			}
		}
	}
	r, err := OpenRemote("127.0.0.1:1", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(t.Context(), "demo", "v1"); code(err) != "UNAVAILABLE" {
		t.Errorf("no registry: %v, want UNAVAILABLE", err)
	}
}

// paged answers a list of n pages, one entry each.
func paged(t *testing.T, pages int, link func(page int) string, entry func(page int) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		w.Header().Set("Content-Type", MediaTypeIndex)
		if page+1 < pages {
			w.Header().Set("Link", "<"+link(page+1)+`>; rel="next"`)
		}
		if err := json.NewEncoder(w).Encode(entry(page)); err != nil {
			t.Error(err)
		}
	}
}

func TestLists(t *testing.T) {
	const pages = 3
	d := digest.Of(digest.SHA256, []byte("subject"))
	tags := func(page int) any { return map[string]any{"tags": []string{fmt.Sprintf("v%d", page)}} }
	referrers := func(page int) any {
		e := mustWire(blobOf(MediaTypeManifest, []byte(strconv.Itoa(page))).Descriptor)
		return map[string]any{"schemaVersion": 2, "mediaType": MediaTypeIndex, "manifests": []any{e}}
	}
	for name, c := range map[string]struct {
		link func(int) string
		ok   bool
	}{
		"by query (twin)":    {func(p int) string { return fmt.Sprintf("?page=%d", p) }, true},
		"another repository": {func(p int) string { return fmt.Sprintf("/v2/team/other/tags/list?page=%d", p) }, false},
		"another host":       {func(p int) string { return fmt.Sprintf("http://example.invalid/?page=%d", p) }, false},
		"itself":             {func(int) string { return "?page=1" }, false},
	} {
		r := serve(t, answer("/tags/list", paged(t, pages, c.link, tags)))
		got, err := r.Tags(t.Context(), "demo")
		if c.ok != (err == nil) || c.ok && !slices.Equal(got, []string{"v0", "v1", "v2"}) {
			t.Errorf("tags continued at %s: %q, %v", name, got, err)
		}
		r = serve(t, answer("/referrers/", paged(t, pages, c.link, referrers)))
		found, err := r.Referrers(t.Context(), "demo", d)
		if c.ok != (err == nil) || c.ok && len(found) != 3 {
			t.Errorf("referrers continued at %s: %v, %v", name, found, err)
		}
	}
}

// TestListsThatAreNone: what cannot be read is no empty list.
func TestListsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{`{"tags":[]}`: "", `{"tags":`: "UNAVAILABLE", "<html>": "UNAVAILABLE"} {
		r := serve(t, answer("/tags/list", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
		if _, err := r.Tags(t.Context(), "demo"); code(err) != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestListsAreCapped(t *testing.T) {
	r := serve(t, answer("/tags/list", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte(" "), MaxManifest+1))
	}))
	if _, err := r.Tags(t.Context(), "demo"); code(err) != "LIMIT" {
		t.Errorf("an endless list: %v, want LIMIT", err)
	}
}

func TestGraphRefusesAmbiguousManifests(t *testing.T) {
	config := mustWire(blobOf("application/json", []byte("{}")).Descriptor)
	for name, c := range map[string]struct {
		mediaType string
		raw       string
		want      string
	}{
		"an image (twin)":       {MediaTypeManifest, `{"schemaVersion":2,"config":%s,"layers":[]}`, ""},
		"an index (twin)":       {MediaTypeIndex, `{"schemaVersion":2,"manifests":[],"x":%s}`, ""},
		"index and image":       {MediaTypeManifest, `{"schemaVersion":2,"config":%s,"layers":[],"manifests":[]}`, "MANIFEST_PARSE"},
		"image and index":       {MediaTypeIndex, `{"schemaVersion":2,"config":%s,"manifests":[]}`, "MANIFEST_PARSE"},
		"another type inside":   {MediaTypeManifest, `{"schemaVersion":2,"mediaType":"` + MediaTypeIndex + `","config":%s}`, "MANIFEST_PARSE"},
		"no configuration":      {MediaTypeManifest, `{"schemaVersion":2,"layers":[],"x":%s}`, "MANIFEST_PARSE"},
		"schema version 1":      {MediaTypeManifest, `{"schemaVersion":1,"config":%s}`, "MANIFEST_PARSE"},
		"the same key twice":    {MediaTypeManifest, `{"schemaVersion":2,"layers":[],"layers":[],"config":%s}`, "MANIFEST_PARSE"},
		"not JSON":              {MediaTypeManifest, `%.0s`, "MANIFEST_PARSE"},
		"a child of no kind":    {MediaTypeIndex, `{"schemaVersion":2,"manifests":[%s]}`, "MANIFEST_PARSE"},
		"a digest of no kind":   {MediaTypeManifest, `{"schemaVersion":2,"config":{"digest":"md5:00"},"x":%s}`, "MANIFEST_PARSE"},
		"a type of nobody":      {"application/x", `{"schemaVersion":2,"config":%s}`, "MANIFEST_PARSE"},
		"a negative blob":       {MediaTypeManifest, strings.Replace(`{"schemaVersion":2,"config":%s}`, "%s", `{"digest":"`+config.Digest.String()+`","size":-1},"x":%s`, 1), "MANIFEST_PARSE"},
		"more than may be read": {MediaTypeManifest, strings.Repeat(" ", MaxManifest) + `{"schemaVersion":2,"config":%s}`, "LIMIT"},
	} {
		wire, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		raw := []byte(fmt.Sprintf(c.raw, wire))
		d := blobOf(c.mediaType, raw).Descriptor
		r := serve(t, answer("/manifests/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(raw) }))
		if _, err := Graph(t.Context(), r, "demo", d); code(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestOpenRemote(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"registry.example/team": true, "127.0.0.1:5000": true, "localhost": true, "[::1]:5000/x": true,
		"": false, "team/demo": false, "/team": false, "http://registry.example": false, "user@registry.example": false,
	} {
		want := "USAGE"
		if ok {
			want = ""
		}
		if _, err := OpenRemote(prefix, http.DefaultTransport); code(err) != want {
			t.Errorf("%q: %v, want %q", prefix, err, want)
		}
	}
	if _, err := OpenRemote("registry.example", nil); err == nil {
		t.Error("opened without a transport")
	}
}

// roundTripper sees what would be sent.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestPlainHTTPStaysOnThisMachine(t *testing.T) {
	for host, plain := range map[string]bool{
		"127.0.0.1:5000": true, "127.0.0.2:5000": true, "localhost:5000": true, "localhost": true, "registry.example": false, "10.1.2.3:5000": false, "nas.local": false,
	} {
		sent := make(chan string, 10)
		r, err := OpenRemote(host, roundTripper(func(req *http.Request) (*http.Response, error) {
			sent <- req.URL.Scheme
			return nil, errors.New("not sent")
		}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Tags(t.Context(), "demo"); code(err) != "UNAVAILABLE" {
			t.Errorf("%s: %v", host, err)
		}
		close(sent)
		seen := false
		for scheme := range sent {
			seen = seen || scheme == "http"
		}
		if seen != plain {
			t.Errorf("%s: plain HTTP was spoken: %v, want %v", host, seen, plain)
		}
	}
}

// TestNoSilentFallback: a registry that has the referrers API and fails is not
// one without it.
func TestNoSilentFallback(t *testing.T) {
	d := digest.Of(digest.SHA256, []byte("subject"))
	for status, want := range map[int]string{404: "", 400: "", 406: "", 500: "UNAVAILABLE", 403: "UNAVAILABLE", 429: "UNAVAILABLE"} {
		r := serve(t, answer("/referrers/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }), registry.WithReferrersSupport(true))
		if _, err := r.Referrers(t.Context(), "demo", d); code(err) != want {
			t.Errorf("status %d: %v, want %q", status, err, want)
		}
	}
}
