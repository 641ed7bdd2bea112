package image_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// serve starts a registry with a base for the given platforms and returns the
// references of the index and of its first image.
func serve(t *testing.T, platforms ...v1.Platform) (index, single string, srv *httptest.Server) {
	t.Helper()
	srv = httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	repo, err := name.NewRepository(strings.TrimPrefix(srv.URL, "http://") + "/base")
	if err != nil {
		t.Fatal(err)
	}
	var list v1.ImageIndex = empty.Index
	for _, p := range platforms {
		img := base(t, p)
		list = mutate.AppendManifests(list, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &p}})
		if single == "" {
			single = push(t, repo, img, func(ref name.Reference) error { return remote.Write(ref, img) })
		}
	}
	index = push(t, repo, list, func(ref name.Reference) error { return remote.WriteIndex(ref, list) })
	return index, single, srv
}

func push(t *testing.T, repo name.Repository, what interface{ Digest() (v1.Hash, error) }, write func(name.Reference) error) string {
	t.Helper()
	sum, err := what.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref := repo.Digest(sum.String())
	if err := write(ref); err != nil {
		t.Fatal(err)
	}
	return ref.String()
}

func TestFromRemote(t *testing.T) {
	amd, arm := v1.Platform{OS: "linux", Architecture: "amd64"}, v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}
	index, single, _ := serve(t, amd, arm)
	s := spec()
	var err error
	if s.Base, err = image.FromRemote(t.Context(), index, http.DefaultTransport); err != nil {
		t.Fatal(err)
	}
	fromIndex := build(t, s)
	if !strings.Contains(string(fromIndex.Raw), `"architecture":"arm64"`) {
		t.Errorf("index: %s", fromIndex.Raw)
	}
	layout := t.TempDir()
	node := write(t, layout, fromIndex)
	if len(node.Children) != 2 {
		t.Fatalf("children: %+v", node.Children)
	}

	// The image of one platform is a base for that platform.
	s = on(t, spec(), amd)
	if s.Base, err = image.FromRemote(t.Context(), single, http.DefaultTransport); err != nil {
		t.Fatal(err)
	}
	if got := build(t, s).Children[0].Digest; got != fromIndex.Children[0].Digest {
		t.Errorf("built on the image itself %s, on the index %s", got, fromIndex.Children[0].Digest)
	}
	// And for no other.
	other := spec()
	other.Base = s.Base
	_, err = image.Build(t.Context(), other)
	refused(t, err, verdict.Platform, "is for another platform")
}

// write puts a built image into a layout, twice, and reads all of it back.
func write(t *testing.T, dir string, b *image.Built) *registry.Node {
	t.Helper()
	layout, err := registry.OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d, err := b.Write(t.Context(), layout, "lantern")
		if err != nil {
			t.Fatal(err)
		}
		if d.Digest != b.Descriptor.Digest {
			t.Errorf("wrote %s, built %s", d.Digest, b.Descriptor.Digest)
		}
	}
	node, err := registry.Graph(t.Context(), layout, "lantern", b.Descriptor)
	if err != nil {
		t.Fatal(err)
	}
	if tags, err := layout.Tags(t.Context(), "lantern"); err != nil || len(tags) > 0 {
		t.Errorf("writing left tags: %v, %v", tags, err)
	}
	return node
}

func TestFromRemotePlatforms(t *testing.T) {
	amd := v1.Platform{OS: "linux", Architecture: "amd64"}
	second := v1.Platform{OS: "linux", Architecture: "amd64", Variant: "v1"}
	v3 := v1.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"}
	for reason, row := range map[string][]v1.Platform{
		"got 0; it has": {v3},
		"got 2; it has": {amd, second},
		"":              {amd, v3},
	} {
		ref, _, _ := serve(t, row...)
		b, err := image.FromRemote(t.Context(), ref, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = b.Image(t.Context(), "linux/amd64"); reason == "" {
			if err != nil {
				t.Errorf("the twin: %v", err)
			}
			continue
		}
		refused(t, err, verdict.Platform, reason)
	}
}

func TestFromRemoteRefusesReferences(t *testing.T) {
	sum := digest.Of(digest.SHA256, nil).String()
	for _, ref := range []string{
		"", "registry.example.org/base", "registry.example.org/base:latest", "registry.example.org/base@sha256:abc",
		"base@" + sum, "library/base@" + sum, "registry.example.org/base@" + sum + "@" + sum,
		"registry.example.org/BASE@" + sum, "registry.example.org/base@" + digest.Of(digest.SHA512, nil).String(),
	} {
		_, err := image.FromRemote(t.Context(), ref, http.DefaultTransport)
		refused(t, err, verdict.ConfigParse, "CONFIG")
	}
	_, err := image.FromRemote(t.Context(), "registry.example.org/base@"+sum, nil)
	refused(t, err, verdict.Usage, "a transport is required")
}

// TestFromRemoteAnswers: not there, no answer and other bytes are told apart
// from each other and from success.
func TestFromRemoteAnswers(t *testing.T) {
	index, _, srv := serve(t, v1.Platform{OS: "linux", Architecture: "amd64"})
	gone := index[:strings.Index(index, "@")+1] + digest.Of(digest.SHA256, []byte("gone")).String()
	if _, err := image.FromRemote(t.Context(), gone, http.DefaultTransport); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("want not found, got %v", err)
	}
	private := "10.0.0.1/base@" + digest.Of(digest.SHA256, nil).String()
	for why, row := range map[string]struct {
		ref string
		rt  http.RoundTripper
	}{
		"other bytes":                    {index, swap{}},
		"plain HTTP is for this machine": {private, http.DefaultTransport},
	} {
		_, err := image.FromRemote(t.Context(), row.ref, row.rt)
		var down *verdict.UnavailableError
		if !errors.As(err, &down) {
			t.Errorf("%s: want unavailable, got %v", why, err)
		}
	}
	srv.Close()
	var down *verdict.UnavailableError
	if _, err := image.FromRemote(t.Context(), index, http.DefaultTransport); !errors.As(err, &down) {
		t.Errorf("want unavailable, got %v", err)
	}
}

// swap is a registry that serves other bytes for every manifest.
type swap struct{}

func (swap) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && strings.Contains(req.URL.Path, "/manifests/") {
		resp.Body = io.NopCloser(strings.NewReader(`{"schemaVersion":2}`))
		resp.ContentLength = -1
	}
	return resp, err
}

// order notes what is pushed and refuses whatever leads to nothing.
type order struct {
	t     *testing.T
	there map[string]bool
	log   []string
}

func (o *order) PushBlob(_ context.Context, _ string, d registry.Descriptor, open func() (io.ReadCloser, error)) error {
	body, err := open()
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(io.Discard, digest.NewVerifyingReader(body, d.Digest, d.Size)); err != nil {
		return err
	}
	if o.there[d.Digest.Hex()] {
		o.t.Errorf("blob %s is pushed twice", d.Digest)
	}
	o.there[d.Digest.Hex()] = true
	return nil
}

func (o *order) PushManifest(_ context.Context, _ string, d registry.Descriptor, raw []byte) error {
	for _, part := range strings.Split(string(raw), `"sha256:`)[1:] {
		if !o.there[part[:64]] {
			o.t.Errorf("%s is pushed before %s, to which it leads", d.MediaType, part[:64])
		}
	}
	o.there[d.Digest.Hex()] = true
	o.log = append(o.log, d.Platform)
	return nil
}

func (o *order) Tag(context.Context, string, string, registry.Descriptor) error {
	o.t.Error("a tag is set")
	return nil
}

func TestWriteOrder(t *testing.T) {
	o := &order{t: t, there: map[string]bool{}}
	if _, err := build(t, spec()).Write(t.Context(), o, "lantern"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.log, " "); got != "linux/amd64 linux/arm64 " {
		t.Errorf("manifests in the order %q", got)
	}
}

// TestWriteChangedFile: a file that changed since the build does not get out.
func TestWriteChangedFile(t *testing.T) {
	s, content := spec(), "arm64"
	s.Platforms[0].Files[0].Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }
	b := build(t, s)
	content = "ARM64"
	layout, err := registry.OpenLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(t.Context(), layout, "lantern"); err == nil {
		t.Error("other bytes were written")
	}
}
