package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/sigstore-go/pkg/bundle"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// images are the released image and what an attacker makes of it: the same
// parts under the same names, each in a repository of its own.
type images struct {
	released picture
	// stranger is another image that the released one's bundles refer to.
	stranger picture
	// flipped is the released image; its bundles have a changed signature.
	flipped picture
	// bare is the released image, and nothing refers to it.
	bare picture
	// signed and attested are bare too, for others to sign.
	signed, attested picture
}

// hang makes all the pictures.
func hang(t *testing.T, s *scene.Scene) images {
	t.Helper()
	lock, err := os.ReadFile(s.Path("lantern", "release.lock.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	base := regexp.MustCompile(`sha256:[0-9a-f]+`).FindString(string(lock))
	released := look(t, place{s.Lab.Registry + "/release/lantern", "lantern"}, ":"+scene.Version)
	in := images{released: released}
	in.bare = released.copyTo(t, s.Lab.Registry+"/bare")
	in.signed = released.copyTo(t, s.Lab.Registry+"/signed")
	in.attested = released.copyTo(t, s.Lab.Registry+"/attested")
	in.flipped = released.copyTo(t, s.Lab.Registry+"/flipped")
	in.stranger = look(t, place{s.Lab.Registry + "/base", "static"}, "@"+base).copyTo(t, s.Lab.Registry+"/stranger")
	for part, d := range released.parts {
		for _, raw := range bundlesOf(t, released.place, d.Digest) {
			in.stranger.attach(t, part, raw)
			in.flipped.attach(t, part, flipSignature(t, raw))
		}
	}
	return in
}

// place is a repository.
type place struct{ prefix, repo string }

func (p place) open(t *testing.T) *registry.Remote {
	t.Helper()
	r, err := registry.OpenRemote(p.prefix, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// picture is an image in a registry, by the names of its parts: "index" and
// one for each platform.
type picture struct {
	place

	index registry.Descriptor
	parts map[string]registry.Descriptor
}

// look reads which parts an image has; named is ":tag" or "@digest".
func look(t *testing.T, at place, named string) picture {
	t.Helper()
	ref, err := name.ParseReference(at.prefix + "/" + at.repo + named)
	if err != nil {
		t.Fatal(err)
	}
	head, err := remote.Head(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := digest.Parse(head.Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	index := registry.Descriptor{MediaType: string(head.MediaType), Digest: sum, Size: head.Size}
	graph, err := registry.Graph(t.Context(), at.open(t), at.repo, index)
	if err != nil {
		t.Fatal(err)
	}
	p := picture{place: at, index: index, parts: map[string]registry.Descriptor{"index": index}}
	for _, child := range graph.Children {
		p.parts[child.Descriptor.Platform] = child.Descriptor
	}
	if len(p.parts) != 3 {
		t.Fatalf("%s/%s has the parts %v, want an index and two platforms", at.prefix, at.repo, p.parts)
	}
	return p
}

// reference is a part of the picture as cosign takes it; "tag" is the index by
// its tag.
func (p picture) reference(part string) string {
	if part == "tag" {
		return fmt.Sprintf("%s/%s:%s", p.prefix, p.repo, scene.Version)
	}
	return fmt.Sprintf("%s/%s@%s", p.prefix, p.repo, p.parts[part].Digest)
}

// bare hides what refers to an image.
type bare struct{ registry.Source }

func (bare) Referrers(context.Context, string, digest.Digest) ([]registry.Descriptor, error) {
	return nil, nil
}

// copyTo copies the image, tagged, and nothing that refers to it.
func (p picture) copyTo(t *testing.T, prefix string) picture {
	t.Helper()
	to := p
	to.prefix = prefix
	dst := to.open(t)
	if _, err := registry.Copy(t.Context(), dst, bare{p.open(t)}, p.repo, p.index); err != nil {
		t.Fatal(err)
	}
	if err := dst.Tag(t.Context(), p.repo, scene.Version, p.index); err != nil {
		t.Fatal(err)
	}
	return to
}

// attach has a bundle refer to a part of the picture, whatever it says.
func (p picture) attach(t *testing.T, part string, raw []byte) {
	t.Helper()
	dst := p.open(t)
	d, wire, blobs := registry.BundleManifest(p.parts[part], raw, predicateOf(t, raw))
	for _, b := range blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		if err := dst.PushBlob(t.Context(), p.repo, b.Descriptor, open); err != nil {
			t.Fatal(err)
		}
	}
	if err := dst.PushManifest(t.Context(), p.repo, d, wire); err != nil {
		t.Fatal(err)
	}
}

// bundlesOf reads what refers to a manifest, as the product does.
func bundlesOf(t *testing.T, at place, d digest.Digest) [][]byte {
	t.Helper()
	bundles, err := registry.Bundles(t.Context(), at.open(t), at.repo, d)
	if err != nil || len(bundles) == 0 {
		t.Fatalf("%d bundles refer to %s: %v", len(bundles), d, err)
	}
	return bundles
}

// attached reads what refers to a manifest with somebody else's client.
func attached(ctx context.Context, ref name.Digest) ([]*bundle.Bundle, error) {
	index, err := remote.Referrers(ref, remote.WithContext(ctx), remote.WithFilter("artifactType", "application/vnd.dev.sigstore.bundle.v0.3+json"))
	if err != nil {
		return nil, err
	}
	listed, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var bundles []*bundle.Bundle
	for _, d := range listed.Manifests {
		image, err := remote.Image(ref.Context().Digest(d.Digest.String()), remote.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		layers, err := image.Layers()
		if err != nil || len(layers) != 1 {
			return nil, fmt.Errorf("%s has %d layers: %w", d.Digest, len(layers), err)
		}
		body, err := layers[0].Compressed()
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		b := &bundle.Bundle{}
		if err := b.UnmarshalJSON(raw); err != nil {
			return nil, err
		}
		bundles = append(bundles, b)
	}
	return bundles, nil
}
