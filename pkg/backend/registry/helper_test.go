package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// code returns the reason code of err, "" if it has none.
func code(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return ""
}

// serve starts a registry whose answers pass through spoil.
func serve(t *testing.T, spoil func(http.Handler) http.Handler, opts ...registry.Option) *Remote {
	t.Helper()
	return serveThrough(t, spoil, http.DefaultTransport, opts...)
}

// serveThrough is [serve] with a transport.
func serveThrough(t *testing.T, spoil func(http.Handler) http.Handler, rt http.RoundTripper, opts ...registry.Option) *Remote {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // nobody's credentials
	opts = append(opts, registry.Logger(log.New(io.Discard, "", 0)))
	handler := registry.New(opts...)
	if spoil != nil {
		handler = spoil(handler)
	}
	srv := httptest.NewServer(handler)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(srv.Close)
	r, err := OpenRemote(strings.TrimPrefix(srv.URL, "http://")+"/team", rt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type place interface {
	Source
	Sink
}

// places are all implementations, empty.
func places(t *testing.T) map[string]place {
	layout, err := OpenLayout(t.TempDir() + "/layout")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]place{
		"remote with referrers": serve(t, nil, registry.WithReferrersSupport(true)),
		"remote without":        serve(t, nil, registry.WithReferrersSupport(false)),
		"layout":                layout,
	}
}

func push(t *testing.T, p Sink, b Blob) Descriptor {
	t.Helper()
	err := p.PushBlob(t.Context(), "demo", b.Descriptor, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes)), nil
	})
	if err != nil {
		t.Fatalf("pushing blob: %v", err)
	}
	return b.Descriptor
}

func pushManifest(t *testing.T, p Sink, mediaType string, v any) Descriptor {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	d := blobOf(mediaType, raw).Descriptor
	if err := p.PushManifest(t.Context(), "demo", d, raw); err != nil {
		t.Fatalf("pushing manifest: %v", err)
	}
	return d
}

// image pushes an image of one layer.
func image(t *testing.T, p Sink, content string) Descriptor {
	t.Helper()
	config := push(t, p, blobOf("application/vnd.oci.image.config.v1+json", []byte(`{"os":"linux","architecture":"`+content+`"}`)))
	layer := push(t, p, blobOf("application/vnd.oci.image.layer.v1.tar", []byte(content)))
	return pushManifest(t, p, MediaTypeManifest, v1.Manifest{
		SchemaVersion: 2, MediaType: MediaTypeManifest, Config: mustWire(config), Layers: []v1.Descriptor{mustWire(layer)},
	})
}

// index pushes an index of two images and tags it.
func index(t *testing.T, p Sink, tag string) (Descriptor, []Descriptor) {
	t.Helper()
	children := []Descriptor{image(t, p, "amd64"), image(t, p, "arm64")}
	list := v1.IndexManifest{SchemaVersion: 2, MediaType: MediaTypeIndex}
	for i, arch := range []string{"amd64", "arm64"} {
		entry := mustWire(children[i])
		entry.Platform = &v1.Platform{OS: "linux", Architecture: arch}
		list.Manifests = append(list.Manifests, entry)
	}
	d := pushManifest(t, p, MediaTypeIndex, list)
	if err := p.Tag(t.Context(), "demo", tag, d); err != nil {
		t.Fatalf("tagging: %v", err)
	}
	return d, children
}

// attach pushes a bundle that refers to d.
func attach(t *testing.T, p Sink, d Descriptor, content string) Descriptor {
	t.Helper()
	manifest, raw, blobs := BundleManifest(d, []byte(content), "https://example.org/predicate/v1")
	for _, b := range blobs {
		push(t, p, b)
	}
	if err := p.PushManifest(t.Context(), "demo", manifest, raw); err != nil {
		t.Fatalf("attaching: %v", err)
	}
	return manifest
}

func read(ctx context.Context, s Source, d Descriptor) (string, error) {
	body, err := s.Fetch(ctx, "demo", d)
	if err != nil {
		return "", err
	}
	raw, err := fetchAll(body)
	return string(raw), err
}

func digests(list []Descriptor) []digest.Digest {
	var out []digest.Digest
	for _, d := range list {
		out = append(out, d.Digest)
	}
	return out
}
