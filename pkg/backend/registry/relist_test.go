package registry

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestWithoutAnnotations: a manifest that was made without them is what is left,
// byte for byte; whatever else stands in it stays as it is written.
func TestWithoutAnnotations(t *testing.T) {
	subject := Descriptor{MediaType: MediaTypeIndex, Digest: digest.Of(digest.SHA256, []byte("subject")), Size: 7}
	plain, want, _ := BundleManifest(subject, []byte("bundle"), "kind")
	d, raw, _ := HintedManifest(subject, []byte("bundle"), "kind", map[string]string{"a.hint": "1", "z.hint": "<2>"})
	got, bare, err := WithoutAnnotations(d, raw, "a.hint", "z.hint", "no.hint")
	if err != nil || string(bare) != string(want) || !got.Digest.Equal(plain.Digest) || got.Size != plain.Size || len(got.Annotations) != len(plain.Annotations) {
		t.Errorf("%v\n%s\nwant\n%s", err, bare, want)
	}
	if same, again, err := WithoutAnnotations(plain, want, "a.hint"); err != nil || !same.Digest.Equal(plain.Digest) || string(again) != string(want) {
		t.Errorf("without any to begin with: %v", err)
	}
	other := `{ "schemaVersion" : 2, "unknown": {"b": 1,  "a": [ ]}, "annotations":{"a.hint":"1"}, "config":{"mediaType":"x","digest":"` + subject.Digest.String() + `","size":2}, "layers":[]}`
	_, bare, err = WithoutAnnotations(blobOf(MediaTypeManifest, []byte(other)).Descriptor, []byte(other), "a.hint")
	if err != nil || !strings.Contains(string(bare), `"unknown":{"b": 1,  "a": [ ]},"config"`) || strings.Contains(string(bare), "annotations") || !json.Valid(bare) {
		t.Errorf("%v\n%s", err, bare)
	}
	if _, _, err := WithoutAnnotations(d, []byte(`{"annotations":{"a.hint":"1"}`), "a.hint"); err == nil {
		t.Error("half a manifest is taken")
	}
}

// fallback is what the tag that stands for a list names.
func fallback(t *testing.T, r *Remote, of digest.Digest) v1.IndexManifest {
	t.Helper()
	_, raw, err := r.Manifest(t.Context(), "demo", AttachedTag(of, ""))
	if err != nil {
		t.Fatal(err)
	}
	var list v1.IndexManifest
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestRelist: a referrer leaves the list only for one that stands there, and the
// list is as if it had never been there.
func TestRelist(t *testing.T) {
	r := serve(t, nil, registry.WithReferrersSupport(false))
	d, _ := index(t, r, "v1")
	if err := r.Relist(t.Context(), "demo", Swap{Of: d.Digest, Old: d.Digest, New: d.Digest}); err != nil {
		t.Errorf("without a list: %v", err)
	}
	one, two := attach(t, r, d, "one"), attach(t, r, d, "two")
	_, before, err := r.Manifest(t.Context(), "demo", AttachedTag(d.Digest, ""))
	if err != nil {
		t.Fatal(err)
	}
	old := attach(t, r, d, "old")
	missing := digest.Of(digest.SHA256, []byte("missing"))
	if err := r.Relist(t.Context(), "demo", Swap{Of: d.Digest, Old: old.Digest, New: missing}); code(err) != "REPLICA_DRIFT" {
		t.Errorf("for one that is not listed: %v", err)
	}
	if n := len(fallback(t, r, d.Digest).Manifests); n != 3 {
		t.Fatalf("%d are listed, want three", n)
	}
	for range 2 {
		if err := r.Relist(t.Context(), "demo", Swap{Of: d.Digest, Old: old.Digest, New: one.Digest}); err != nil {
			t.Fatal(err)
		}
	}
	_, after, err := r.Manifest(t.Context(), "demo", AttachedTag(d.Digest, ""))
	if err != nil || string(after) != string(before) {
		t.Errorf("%v\n%s\nwant\n%s", err, after, before)
	}
	if entries, err := Entries(blobOf(MediaTypeIndex, after).Descriptor, after); err != nil || len(entries) != 2 || !entries[0].Equal(min2(one, two)) {
		t.Errorf("%v, %v", entries, err)
	}
	unknown := []byte(`{"schemaVersion":2,"manifests":[{"mediaType":"` + MediaTypeManifest + `","digest":"md5:00","size":1}]}`)
	if entries, err := Entries(blobOf(MediaTypeIndex, unknown).Descriptor, unknown); code(err) != "MANIFEST_PARSE" {
		t.Errorf("a digest of an unknown algorithm: %v, %v", entries, err)
	}
	if _, err := read(t.Context(), r, old); err != nil {
		t.Errorf("the manifest itself is gone: %v", err)
	}
	if err := r.Tag(t.Context(), "demo", AttachedTag(one.Digest, ""), one); err != nil {
		t.Fatal(err)
	}
	if err := r.Relist(t.Context(), "demo", Swap{Of: one.Digest, Old: old.Digest, New: two.Digest}); code(err) != "MANIFEST_PARSE" {
		t.Errorf("a list that is none: %v", err)
	}
}

func min2(a, b Descriptor) digest.Digest {
	if a.Digest.String() < b.Digest.String() {
		return a.Digest
	}
	return b.Digest
}

// TestDelete: what is deleted is not waited for, and a registry that does not
// delete is told from one that is away.
func TestDelete(t *testing.T) {
	t.Setenv(transport.PatienceVariable, "300ms")
	status := 0
	r := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodDelete && status != 0 {
				w.WriteHeader(status)
				return
			}
			next.ServeHTTP(w, req)
		})
	}, registry.WithReferrersSupport(true))
	d, _ := index(t, r, "v1")
	old := attach(t, r, d, "old")
	for status = range map[int]bool{405: true, 403: true, 400: true, 401: true, 501: true} {
		if err := r.Delete(t.Context(), "demo", old.Digest); !errors.Is(err, ErrKept) {
			t.Errorf("%d: %v", status, err)
		}
	}
	status = 503
	if err := r.Delete(t.Context(), "demo", old.Digest); code(err) != "UNAVAILABLE" || errors.Is(err, ErrKept) {
		t.Errorf("away: %v", err)
	}
	if list, err := r.Referrers(t.Context(), "demo", d.Digest); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	status = 0
	for range 2 {
		if err := r.Delete(t.Context(), "demo", old.Digest); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := r.Referrers(t.Context(), "demo", d.Digest); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := r.Resolve(t.Context(), "demo", old.Digest.String()); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is waited for: %v", err)
	}
}
