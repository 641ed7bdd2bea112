package registry

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

func TestPlaces(t *testing.T) {
	for name, p := range places(t) {
		t.Run(name, func(t *testing.T) {
			d, children := index(t, p, "v1.0.0")
			got, err := p.Resolve(t.Context(), "demo", "v1.0.0")
			if err != nil || got.Digest != d.Digest || got.Size != d.Size || got.MediaType != MediaTypeIndex {
				t.Errorf("resolved %+v, %v, want %+v", got, err, d)
			}
			if same, err := p.Resolve(t.Context(), "demo", d.Digest.String()); err != nil || same.Digest != d.Digest || same.Size != d.Size {
				t.Errorf("resolved by digest %+v, %v, want %+v", same, err, d)
			}
			if tags, err := p.Tags(t.Context(), "demo"); err != nil || !slices.Equal(tags, []string{"v1.0.0"}) {
				t.Errorf("tags %q, %v", tags, err)
			}
			graph, err := Graph(t.Context(), p, "demo", got)
			if err != nil {
				t.Fatal(err)
			}
			if len(graph.Children) != 2 || graph.Children[1].Descriptor.Platform != "linux/arm64" || len(graph.Children[0].Blobs()) != 2 {
				t.Errorf("the graph is %+v", graph)
			}
			if n, err := VerifyBlobs(t.Context(), p, "demo", graph); err != nil || n == 0 {
				t.Errorf("verified %d bytes, %v", n, err)
			}
			if text, err := read(t.Context(), p, graph.Children[0].Layers[0]); err != nil || text != "amd64" {
				t.Errorf("the layer holds %q, %v", text, err)
			}
			if none, err := p.Referrers(t.Context(), "demo", d.Digest); err != nil || len(none) > 0 {
				t.Errorf("referrers before there are any: %v, %v", none, err)
			}
			want := []Descriptor{attach(t, p, d, "one"), attach(t, p, d, "two")}
			attach(t, p, children[0], "of a child")
			attach(t, p, d, "one") // once more
			found, err := p.Referrers(t.Context(), "demo", d.Digest)
			if err != nil || !slices.Equal(digests(found), digests(sortReferrers(want))) {
				t.Fatalf("referrers %v, %v, want %v", digests(found), err, digests(want))
			}
			if found[0].Annotations[annotationPredicate] != "https://example.org/predicate/v1" && name != "remote with referrers" {
				t.Errorf("annotations %v", found[0].Annotations)
			}
			if found[0].ArtifactType != mediaTypeBundle && name != "remote with referrers" {
				t.Errorf("artifact type %q", found[0].ArtifactType)
			}
		})
	}
}

func TestPlacesSayNo(t *testing.T) {
	for name, p := range places(t) {
		t.Run(name, func(t *testing.T) {
			d, _ := index(t, p, "v1.0.0")
			absent := digest.Of(digest.SHA256, []byte("absent"))
			for act, try := range map[string]func() error{
				"resolving a tag":    func() error { _, err := p.Resolve(t.Context(), "demo", "v2"); return err },
				"resolving a digest": func() error { _, err := p.Resolve(t.Context(), "demo", absent.String()); return err },
				"resolving in no repository": func() error {
					_, err := p.Resolve(t.Context(), "nothing", "v1.0.0")
					return err
				},
				"the tags of no repository": func() error { _, err := p.Tags(t.Context(), "nothing"); return err },
				"reading a blob":            func() error { _, err := read(t.Context(), p, Descriptor{Digest: absent, Size: 6}); return err },
				"reading a manifest": func() error {
					_, err := read(t.Context(), p, Descriptor{MediaType: MediaTypeIndex, Digest: absent, Size: 6})
					return err
				},
				"tagging a manifest": func() error {
					return p.Tag(t.Context(), "demo", "v2", Descriptor{MediaType: MediaTypeIndex, Digest: absent, Size: 6})
				},
			} {
				if err := try(); !errors.Is(err, ErrNotFound) || code(err) != "MISSING" {
					t.Errorf("%s that is not there: %v, want ErrNotFound", act, err)
				}
			}
			for act, try := range map[string]func() error{
				"another size": func() error { w := d; w.Size--; _, err := read(t.Context(), p, w); return err },
				"bytes of another digest": func() error {
					return p.PushManifest(t.Context(), "demo", d, []byte(`{"schemaVersion":2}`))
				},
				"a blob that is another": func() error {
					return p.PushBlob(t.Context(), "demo", Descriptor{Digest: absent, Size: 5}, func() (io.ReadCloser, error) {
						return io.NopCloser(strings.NewReader("other")), nil
					})
				},
				"a large blob that is another": func() error {
					return p.PushBlob(t.Context(), "demo", Descriptor{Digest: absent, Size: maxSmall + 1}, func() (io.ReadCloser, error) {
						return io.NopCloser(strings.NewReader(strings.Repeat("o", maxSmall+1))), nil
					})
				},
			} {
				if err := try(); code(err) != "TAMPERED" {
					t.Errorf("%s: %v, want TAMPERED", act, err)
				}
			}
			for _, tag := range []string{"", "a b", "../x", "a:b"} {
				if err := p.Tag(t.Context(), "demo", tag, d); err == nil {
					t.Errorf("the tag %q was written", tag)
				}
			}
			raw := []byte(`{"schemaVersion":2,"mediaType":"` + MediaTypeIndex + `","manifests":[]}`)
			for _, repo := range []string{"Demo", "demo//more", "..", "demo/.."} {
				if err := p.PushManifest(t.Context(), repo, blobOf(MediaTypeIndex, raw).Descriptor, raw); code(err) != "USAGE" {
					t.Errorf("the repository %q was written: %v", repo, err)
				}
			}
			huge := Descriptor{MediaType: MediaTypeManifest, Digest: absent, Size: MaxManifest + 1}
			if _, err := p.Fetch(t.Context(), "demo", huge); code(err) != "LIMIT" {
				t.Errorf("a manifest of %d bytes: %v, want LIMIT", huge.Size, err)
			}
			if tags, err := p.Tags(t.Context(), "demo"); err != nil || len(tags) != 1 {
				t.Errorf("after all that the tags are %q, %v", tags, err)
			}
		})
	}
}

func TestPushIsIdempotent(t *testing.T) {
	for name, p := range places(t) {
		t.Run(name, func(t *testing.T) {
			b := blobOf("text/plain", []byte("content"))
			push(t, p, b)
			err := p.PushBlob(t.Context(), "demo", b.Descriptor, func() (io.ReadCloser, error) {
				return nil, errors.New("opened again")
			})
			if err != nil {
				t.Errorf("pushing what is there: %v", err)
			}
			broken := errors.New("the source broke")
			err = p.PushBlob(t.Context(), "demo", blobOf("", []byte("new")).Descriptor, func() (io.ReadCloser, error) { return nil, broken })
			if !errors.Is(err, broken) {
				t.Errorf("a broken source: %v", err)
			}
		})
	}
}

// describing pushes what refers to d and is no bundle.
func describing(t *testing.T, p Sink, d Descriptor) Descriptor {
	t.Helper()
	subject := mustWire(d)
	config := push(t, p, blobOf(mediaTypeEmpty, []byte("{}")))
	layer := push(t, p, blobOf("application/spdx+json", []byte(`{"spdxVersion":"SPDX-2.3"}`)))
	return pushManifest(t, p, MediaTypeManifest, v1.Manifest{
		SchemaVersion: 2, MediaType: MediaTypeManifest, ArtifactType: "application/spdx+json",
		Config: mustWire(config), Layers: []v1.Descriptor{mustWire(layer)}, Subject: &subject,
	})
}

// TestCopy copies from every place to every other, with what refers to the
// image, to its children, and to that.
func TestCopy(t *testing.T) {
	for from, src := range places(t) {
		d, children := index(t, src, "v1.0.0")
		attach(t, src, d, "signature of the index")
		attach(t, src, children[1], "signature of a child")
		sbom := describing(t, src, d)
		attach(t, src, sbom, "signature of the SBOM")
		for to, dst := range places(t) {
			t.Run(from+" to "+to, func(t *testing.T) {
				for range 2 { // the second time does nothing
					if _, err := Copy(t.Context(), dst, src, "demo", d); err != nil {
						t.Fatal(err)
					}
				}
				if tags, err := dst.Tags(t.Context(), "demo"); err == nil {
					for _, tag := range tags {
						if !strings.HasPrefix(tag, "sha256-") { // of the referrers tag schema
							t.Errorf("the tag %q was copied", tag)
						}
					}
				}
				a, err := Graph(t.Context(), src, "demo", d)
				if err != nil {
					t.Fatal(err)
				}
				b, err := Graph(t.Context(), dst, "demo", d)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(a.Raw, b.Raw) {
					t.Error("the copy has other bytes")
				}
				if _, err := VerifyBlobs(t.Context(), dst, "demo", b); err != nil {
					t.Error(err)
				}
				for _, subject := range []Descriptor{d, children[0], children[1], sbom} {
					want, err := src.Referrers(t.Context(), "demo", subject.Digest)
					if err != nil {
						t.Fatal(err)
					}
					got, err := dst.Referrers(t.Context(), "demo", subject.Digest)
					if err != nil || !slices.Equal(digests(got), digests(want)) {
						t.Errorf("referrers %v, %v, want %v", digests(got), err, digests(want))
					}
				}
			})
		}
	}
}

// TestCopyNeedsTheReferrers: an image is not copied without its evidence because
// the source does not list it now.
func TestCopyNeedsTheReferrers(t *testing.T) {
	for status, want := range map[int]string{http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusNotFound: ""} {
		src := serve(t, answer("/referrers/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		d := image(t, src, "amd64")
		if _, err := Copy(t.Context(), places(t)["layout"], src, "demo", d); code(err) != want {
			t.Errorf("status %d: %v, want %q", status, err, want)
		}
	}
}

// TestCopyOfTheIncompleteStops: no manifest arrives whose parts do not.
func TestCopyOfTheIncompleteStops(t *testing.T) {
	src, dst := places(t)["layout"], places(t)["layout"]
	config := push(t, src, blobOf("application/vnd.oci.image.config.v1+json", []byte("{}")))
	absent := blobOf("application/vnd.oci.image.layer.v1.tar", []byte("absent")).Descriptor
	d := pushManifest(t, src, MediaTypeManifest, map[string]any{
		"schemaVersion": 2, "config": mustWire(config), "layers": []any{mustWire(absent)},
	})
	if _, err := Copy(t.Context(), dst, src, "demo", d); !errors.Is(err, ErrNotFound) {
		t.Errorf("copying: %v, want ErrNotFound", err)
	}
	if _, err := read(t.Context(), dst, d); err == nil {
		t.Error("the manifest arrived without its layer")
	}
}
