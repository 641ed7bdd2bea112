package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/waybill-release/waybill/test/lab/registry"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
	repo         = "staging/app"
)

// client speaks to a registry in plain HTTP.
type client struct {
	t   *testing.T
	url string
}

func serve(t *testing.T, dir string) client {
	t.Helper()
	r, err := registry.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(r)
	t.Cleanup(ts.Close)
	return client{t, ts.URL}
}

// do makes a request and returns the response and its body.
func (c client) do(method, path, contentType, body string) (*http.Response, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(b)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// blob pushes a blob and returns its descriptor.
func (c client) blob(repo, content string) string {
	c.t.Helper()
	resp, body := c.do("POST", "/v2/"+repo+"/blobs/uploads/?digest="+digest(content), "application/octet-stream", content)
	if resp.StatusCode != 201 {
		c.t.Fatalf("pushing a blob: %d %s", resp.StatusCode, body)
	}
	return describe("application/octet-stream", content)
}

func describe(mediaType, content string) string {
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, mediaType, digest(content), len(content))
}

// put pushes a manifest and returns the answer.
func (c client) put(reference, contentType, body string) (*http.Response, string) {
	c.t.Helper()
	return c.do("PUT", "/v2/"+repo+"/manifests/"+reference, contentType, body)
}

// image is a manifest with one config, extra fields included as they are.
func image(config, extra string) string {
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[]%s}`, manifestType, config, extra)
}

func subject(of string) string { return `,"subject":` + describe(manifestType, of) }

func TestPushIsChecked(t *testing.T) {
	c := serve(t, t.TempDir())
	config := c.blob(repo, "{}")
	good := image(config, "")
	if resp, body := c.put(digest(good), manifestType, good); resp.StatusCode != 201 {
		t.Fatalf("pushing: %d %s", resp.StatusCode, body)
	}
	index := func(child string) string {
		return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, indexType, describe(manifestType, child))
	}
	cases := []struct {
		name, reference, contentType, body string
		status                             int
		code                               string
	}{
		{"an image with its blobs", "v1", manifestType, good, 201, ""},
		{"a config that is missing", "v1", manifestType, image(describe("x/y", "absent"), ""), 400, "MANIFEST_BLOB_UNKNOWN"},
		{"a layer that is missing", "v1", manifestType, strings.Replace(good, `"layers":[]`, `"layers":[`+describe("x/y", "absent")+`]`, 1), 400, "MANIFEST_BLOB_UNKNOWN"},
		{"a layer that is kept elsewhere", "v1", manifestType, strings.Replace(good, `"layers":[]`, `"layers":[{"mediaType":"x/y","digest":"`+digest("absent")+`","size":1,"urls":["https://example.invalid/"]}]`, 1), 201, ""},
		{"a size that is wrong", "v1", manifestType, strings.Replace(good, `"size":2`, `"size":3`, 1), 400, "MANIFEST_INVALID"},
		{"a digest that is a path", "v1", manifestType, strings.Replace(good, digest("{}"), "..", 1), 400, "MANIFEST_BLOB_UNKNOWN"},
		{"an index with its manifest", "v1", indexType, index(good), 201, ""},
		{"an index whose manifest is missing", "v1", indexType, index("absent"), 400, "MANIFEST_BLOB_UNKNOWN"},
		{"by its digest", digest(good), manifestType, good, 201, ""},
		{"by another digest", digest("another"), manifestType, good, 400, "DIGEST_INVALID"},
		{"under a tag that is none", "v1:2", manifestType, good, 400, "MANIFEST_INVALID"},
		{"as another type than it says", "v1", indexType, good, 400, "MANIFEST_INVALID"},
		{"as no manifest at all", "v1", "text/plain", `{"config":` + config + `}`, 400, "MANIFEST_INVALID"},
		{"with no JSON", "v1", manifestType, "{", 400, "MANIFEST_INVALID"},
		{"with more than 4 MiB", "v1", manifestType, strings.Repeat(" ", 4<<20) + good, 413, "SIZE_INVALID"},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			resp, body := c.put(k.reference, k.contentType, k.body)
			if resp.StatusCode != k.status || !strings.Contains(body, k.code) {
				t.Errorf("%d %s, want %d %s", resp.StatusCode, body, k.status, k.code)
			}
			if k.status == 201 && resp.Header.Get("Docker-Content-Digest") != digest(k.body) {
				t.Errorf("Docker-Content-Digest: %q", resp.Header.Get("Docker-Content-Digest"))
			}
		})
	}
}

// referrers lists as artifact type -> digest.
func (c client) referrers(of, filter string) (map[string]string, *http.Response) {
	c.t.Helper()
	path := "/v2/" + repo + "/referrers/" + digest(of)
	if filter != "" {
		path += "?artifactType=" + filter
	}
	resp, body := c.do("GET", path, "", "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != indexType {
		c.t.Fatalf("listing referrers: %d %q %s", resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal([]byte(body), &index); err != nil || index.Manifests == nil {
		c.t.Fatalf("listing referrers: %v %s", err, body)
	}
	out := map[string]string{}
	for _, d := range index.Manifests {
		out[d.ArtifactType] = d.Digest.String()
	}
	return out, resp
}

func TestReferrers(t *testing.T) {
	c := serve(t, t.TempDir())
	config := c.blob(repo, "{}")
	base := image(config, "")
	signature := image(config, `,"artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json"`+subject(base))
	legacy := image(config, subject(base)) // its type is its config's
	list := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"artifactType":"x/index","manifests":[]%s}`, indexType, subject(base))

	if got, _ := c.referrers(base, ""); len(got) != 0 {
		t.Errorf("a subject that is not there has referrers %v", got)
	}
	// Evidence may come before its subject.
	for body, contentType := range map[string]string{signature: manifestType, legacy: manifestType, list: indexType} {
		resp, answer := c.put(digest(body), contentType, body)
		if resp.StatusCode != 201 || resp.Header.Get("OCI-Subject") != digest(base) {
			t.Errorf("pushing a referrer: %d, OCI-Subject %q, %s", resp.StatusCode, resp.Header.Get("OCI-Subject"), answer)
		}
	}
	if resp, _ := c.put("v1", manifestType, base); resp.StatusCode != 201 || resp.Header.Get("OCI-Subject") != "" {
		t.Errorf("pushing the subject: %d, OCI-Subject %q", resp.StatusCode, resp.Header.Get("OCI-Subject"))
	}
	want := map[string]string{
		"application/vnd.dev.sigstore.bundle.v0.3+json": digest(signature),
		"application/octet-stream":                      digest(legacy), "x/index": digest(list),
	}
	got, resp := c.referrers(base, "")
	if fmt.Sprint(got) != fmt.Sprint(want) || resp.Header.Get("OCI-Filters-Applied") != "" {
		t.Errorf("referrers: %v, filters %q", got, resp.Header.Get("OCI-Filters-Applied"))
	}
	got, resp = c.referrers(base, "x%2Findex")
	if len(got) != 1 || got["x/index"] != digest(list) || resp.Header.Get("OCI-Filters-Applied") != "artifactType" {
		t.Errorf("filtered: %v, filters %q", got, resp.Header.Get("OCI-Filters-Applied"))
	}
	if resp, body := c.do("GET", "/v2/"+repo+"/referrers/nonsense", "", ""); resp.StatusCode != 400 {
		t.Errorf("referrers of no digest: %d %s", resp.StatusCode, body)
	}
	if resp, _ := c.do("DELETE", "/v2/"+repo+"/manifests/"+digest(list), "", ""); resp.StatusCode != 202 {
		t.Errorf("deleting a referrer: %d", resp.StatusCode)
	}
	if got, _ := c.referrers(base, ""); len(got) != 2 || got["x/index"] != "" {
		t.Errorf("after the deletion: %v", got)
	}
}

func (c client) tags(query string) []string {
	c.t.Helper()
	var out struct{ Tags []string }
	resp, body := c.do("GET", "/v2/"+repo+"/tags/list"+query, "", "")
	if err := json.Unmarshal([]byte(body), &out); err != nil || resp.StatusCode != 200 {
		c.t.Fatalf("listing tags: %d %s", resp.StatusCode, body)
	}
	return out.Tags
}

func TestTagsAndDeletion(t *testing.T) {
	c := serve(t, t.TempDir())
	config := c.blob(repo, "{}")
	one, two := image(config, ""), image(config, `,"annotations":{"a":"b"}`)
	for tag, body := range map[string]string{"a": one, "b": one, "c": two, "d": two} {
		if resp, answer := c.put(tag, manifestType, body); resp.StatusCode != 201 {
			t.Fatalf("%d %s", resp.StatusCode, answer)
		}
	}
	for query, want := range map[string][]string{"": {"a", "b", "c", "d"}, "?n=2": {"a", "b"}, "?n=2&last=b": {"c", "d"}, "?last=d": {}, "?n=0": {}} {
		if got := c.tags(query); !slices.Equal(got, want) {
			t.Errorf("tags%s: %q, want %q", query, got, want)
		}
	}
	resp, _ := c.do("GET", "/v2/"+repo+"/tags/list?n=3", "", "")
	if link := resp.Header.Get("Link"); link != "</v2/"+repo+`/tags/list?last=c&n=3>; rel="next"` {
		t.Errorf("Link: %s", link)
	}
	steps := []struct {
		reference string
		status    int
		left      []string
	}{
		{"a", 202, []string{"b", "c", "d"}},         // a tag goes alone
		{digest(two), 202, []string{"b"}},           // a manifest takes its tags along
		{digest(two), 404, []string{"b"}},           // once
		{"a", 404, []string{"b"}},                   // once
		{digest("never there"), 404, []string{"b"}}, // never
	}
	for _, s := range steps {
		if resp, _ := c.do("DELETE", "/v2/"+repo+"/manifests/"+s.reference, "", ""); resp.StatusCode != s.status {
			t.Errorf("deleting %s: %d, want %d", s.reference, resp.StatusCode, s.status)
		}
		if got := c.tags(""); !slices.Equal(got, s.left) {
			t.Errorf("after deleting %s: %q, want %q", s.reference, got, s.left)
		}
	}
	for _, status := range []int{202, 404} {
		if resp, _ := c.do("DELETE", "/v2/"+repo+"/blobs/"+digest("{}"), "", ""); resp.StatusCode != status {
			t.Errorf("deleting a blob: %d, want %d", resp.StatusCode, status)
		}
	}
}

func TestBlobsBelongToRepositories(t *testing.T) {
	c := serve(t, t.TempDir())
	c.blob(repo, "here")
	there := "/v2/other/app/blobs/"
	status := func(method, path string) int {
		resp, _ := c.do(method, path, "", "")
		return resp.StatusCode
	}
	if got := status("HEAD", "/v2/"+repo+"/blobs/"+digest("here")); got != 200 {
		t.Errorf("where it was pushed: %d", got)
	}
	if got := status("HEAD", there+digest("here")); got != 404 {
		t.Errorf("elsewhere: %d", got)
	}
	if got := status("POST", there+"uploads/?mount="+digest("absent")+"&from="+repo); got != 202 {
		t.Errorf("mounting what is not there: %d", got)
	}
	if got := status("POST", there+"uploads/?mount="+digest("here")+"&from="+repo); got != 201 {
		t.Errorf("mounting: %d", got)
	}
	if resp, body := c.do("GET", there+digest("here"), "", ""); resp.StatusCode != 200 || body != "here" {
		t.Errorf("where it was mounted: %d %q", resp.StatusCode, body)
	}
	if resp, body := c.do("POST", there+"uploads/?digest="+digest("x"), "", "other bytes"); resp.StatusCode != 400 {
		t.Errorf("a blob that is not its digest: %d %s", resp.StatusCode, body)
	}
}

// TestRestart pushes an index with go-containerregistry's client, restarts,
// and pulls it all back.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	before := serve(t, dir)
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: randomImage(t)}, mutate.IndexAddendum{Add: randomImage(t)})
	want, err := index.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(reference(t, before, "v1"), index); err != nil {
		t.Fatal(err)
	}
	config := before.blob(repo, "{}")
	evidence := image(config, `,"artifactType":"x/evidence"`+subject(string(want)))
	before.put(digest(evidence), manifestType, evidence)

	after := serve(t, dir)
	pulled, err := remote.Index(reference(t, after, "v1"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pulled.RawManifest()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("pulled %s, %v", got, err)
	}
	m, err := pulled.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Manifests {
		img, err := pulled.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := img.Layers()
		if err != nil || len(layers) != 2 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		for _, l := range layers {
			rc, err := l.Compressed()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, rc); err != nil {
				t.Error(err) // the client verifies the digest
			}
			_ = rc.Close()
		}
	}
	if got, _ := after.referrers(string(want), "x%2Fevidence"); got["x/evidence"] != digest(evidence) {
		t.Errorf("referrers: %v", got)
	}
	refs, err := remote.Referrers(reference(t, after, "v1").Context().Digest(digest(string(want))))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := refs.IndexManifest(); err != nil || len(m.Manifests) != 1 || m.Manifests[0].ArtifactType != "x/evidence" {
		t.Errorf("through the client: %+v, %v", m, err)
	}
}

func randomImage(t *testing.T) v1.Image {
	t.Helper()
	img, err := random.Image(1024, 2)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func reference(t *testing.T, c client, tag string) name.Tag {
	t.Helper()
	ref, err := name.NewTag(strings.TrimPrefix(c.url, "http://") + "/" + repo + ":" + tag)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func BenchmarkReferrers(b *testing.B) {
	r, err := registry.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	do := func(method, path, body string) {
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
		if rec.Code >= 400 {
			b.Fatalf("%s %s: %d %s", method, path, rec.Code, rec.Body)
		}
	}
	do("POST", "/v2/"+repo+"/blobs/uploads/?digest="+digest("{}"), "{}")
	for i := range 2000 {
		m := image(describe("x/y", "{}"), subject(fmt.Sprint(i)))
		do("PUT", "/v2/"+repo+"/manifests/"+digest(m), m)
	}
	b.ResetTimer()
	for range b.N {
		do("GET", "/v2/"+repo+"/referrers/"+digest("7"), "")
	}
}
