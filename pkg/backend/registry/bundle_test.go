package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestBundleManifest spells out what cosign v3.1 writes, but for its annotation
// with the time.
func TestBundleManifest(t *testing.T) {
	subject := Descriptor{MediaType: MediaTypeIndex, Digest: digest.Of(digest.SHA256, []byte("subject")), Size: 7, Platform: "linux/amd64"}
	d, raw, blobs := BundleManifest(subject, []byte("bundle"), "https://sigstore.dev/cosign/sign/v1")
	want := `{
		"schemaVersion": 2,
		"mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": {
			"mediaType": "application/vnd.oci.empty.v1+json",
			"size": 2,
			"digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
			"artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json"
		},
		"layers": [{
			"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
			"size": 6,
			"digest": "` + digest.Of(digest.SHA256, []byte("bundle")).String() + `"
		}],
		"annotations": {
			"dev.sigstore.bundle.content": "dsse-envelope",
			"dev.sigstore.bundle.predicateType": "https://sigstore.dev/cosign/sign/v1",
			"dev.waybill.bundle.layer": "` + digest.Of(digest.SHA256, []byte("bundle")).String() + ` 6"
		},
		"subject": {
			"mediaType": "application/vnd.oci.image.index.v1+json",
			"size": 7,
			"digest": "` + subject.Digest.String() + `"
		},
		"artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json"
	}`
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(want)); err != nil {
		t.Fatal(err)
	}
	if compact.String() != string(raw) {
		t.Errorf("wrote %s\nwant  %s", raw, compact.String())
	}
	if d.Digest != digest.Of(digest.SHA256, raw) || d.Size != int64(len(raw)) || d.MediaType != MediaTypeManifest {
		t.Errorf("described as %+v", d)
	}
	if len(blobs) != 2 || string(blobs[0].Bytes) != "{}" || string(blobs[1].Bytes) != "bundle" {
		t.Errorf("blobs %+v", blobs)
	}
	_, again, _ := BundleManifest(subject, []byte("bundle"), "https://sigstore.dev/cosign/sign/v1")
	if !bytes.Equal(raw, again) {
		t.Error("the same arguments gave other bytes")
	}
}

func TestBundleManifestNeedsASubject(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a bundle without a subject was written")
		}
	}()
	BundleManifest(Descriptor{MediaType: MediaTypeIndex}, nil, "x")
}

// TestHintedManifest: hints stand beside what a bundle says of itself, never in
// its place, and a bundle is found again whatever it came with.
func TestHintedManifest(t *testing.T) {
	subject := Descriptor{MediaType: MediaTypeManifest, Digest: digest.Of(digest.SHA256, []byte("subject")), Size: 7}
	plain, _, _ := BundleManifest(subject, []byte("bundle"), "https://example.org/predicate/v1")
	hints := map[string]string{"dev.waybill.trace-id": "1", annotationPredicate: "https://example.org/other/v1"}
	hinted, raw, blobs := HintedManifest(subject, []byte("bundle"), "https://example.org/predicate/v1", hints)
	if hinted.Digest.Equal(plain.Digest) || hinted.Annotations["dev.waybill.trace-id"] != "1" {
		t.Errorf("the hints are not there: %v", hinted.Annotations)
	}
	if hinted.Annotations[annotationPredicate] != plain.Annotations[annotationPredicate] || len(hints) != 2 {
		t.Errorf("a hint took the place of %s: %v", annotationPredicate, hinted.Annotations)
	}
	l, err := OpenLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		if err := l.PushBlob(t.Context(), "lantern", b.Descriptor, open); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.PushManifest(t.Context(), "lantern", hinted, raw); err != nil {
		t.Fatal(err)
	}
	for bundle, want := range map[string]bool{"bundle": true, "another": false} {
		if there, err := Refers(t.Context(), l, "lantern", subject.Digest, []byte(bundle)); there != want || err != nil {
			t.Errorf("%s refers: %v, %v", bundle, there, err)
		}
	}
}

// TestRefersWhenTheRegistryIsDown: a registry that does not list its referrers
// may have the bundle.
func TestRefersWhenTheRegistryIsDown(t *testing.T) {
	for status, want := range map[int]string{http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusNotFound: ""} {
		r := serve(t, answer("/referrers/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		if _, err := Refers(t.Context(), r, "demo", digest.Of(digest.SHA256, nil), []byte("bundle")); code(err) != want {
			t.Errorf("status %d: %v, want %q", status, err, want)
		}
	}
}

// unresolved is a registry that answers an error for each tag.
type unresolved struct {
	Source
	err error
}

func (u unresolved) Resolve(context.Context, string, string) (Descriptor, error) {
	return Descriptor{}, u.err
}

// TestAttachedToWhenTheRegistryIsDown: a tag that is not there attaches nothing,
// and a registry that does not answer may attach anything.
func TestAttachedToWhenTheRegistryIsDown(t *testing.T) {
	down := errors.New("no answer")
	for _, row := range []struct{ is, want error }{{fmt.Errorf("the tag: %w", ErrNotFound), nil}, {down, down}} {
		_, err := AttachedTo(t.Context(), unresolved{err: row.is}, "demo", digest.Of(digest.SHA256, nil), SuffixSignatures)
		if !errors.Is(err, row.want) {
			t.Errorf("%v: %v, want %v", row.is, err, row.want)
		}
	}
}
