package promote

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/legacy"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/verdict"
)

const repo = "demo"

func layout(t *testing.T) *registry.Layout {
	t.Helper()
	l, err := registry.OpenLayout(filepath.Join(t.TempDir(), "images"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// push writes an image of layers, and names it by a tag if there is one.
func push(t *testing.T, to *registry.Layout, tag, media string, texts ...string) registry.Descriptor {
	t.Helper()
	var layers []registry.Attached
	for _, text := range texts {
		layers = append(layers, registry.Attached{Descriptor: registry.Descriptor{MediaType: media}, Bytes: []byte(text)})
	}
	d, raw, blobs := registry.AttachedManifest(layers)
	for _, b := range blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		if err := to.PushBlob(t.Context(), repo, b.Descriptor, open); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.PushManifest(t.Context(), repo, d, raw); err != nil {
		t.Fatal(err)
	}
	if tag != "" {
		if err := to.Tag(t.Context(), repo, tag, d); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestCopyAttached: older evidence travels with its image; a tag that is there
// is never moved, and one that holds no evidence goes nowhere.
func TestCopyAttached(t *testing.T) {
	const layer = "application/vnd.oci.image.layer.v1.tar"
	for name, c := range map[string]struct {
		media string
		there []string // what the destination's tag attaches already
		want  verdict.Code
	}{
		"nothing is there":              {legacy.MediaPayload, nil, ""},
		"the same is there":             {legacy.MediaPayload, []string{"ours"}, ""},
		"more is there":                 {legacy.MediaPayload, []string{"theirs", "ours"}, ""},
		"something else is there":       {legacy.MediaPayload, []string{"theirs"}, verdict.TagConflict},
		"a tag that holds no evidence":  {layer, nil, verdict.Extra},
		"an attestation, which is fine": {legacy.MediaEnvelope, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := layout(t), layout(t)
			d := push(t, src, "v1", layer, "content")
			tag := registry.AttachedTag(d.Digest, registry.SuffixSignatures)
			sig := push(t, src, tag, c.media, "ours")
			push(t, dst, "", layer, "something else") // so that there is a registry
			if c.there != nil {
				push(t, dst, tag, legacy.MediaPayload, c.there...)
			}
			image := Image{Repository: repo, Digest: d.Digest, Size: d.Size, MediaType: d.MediaType}
			err := copyAttached(t.Context(), image, From{Images: src}, To{Images: dst})
			if got := verdict.FindingOf("", err).Code; err == nil && c.want != "" || err != nil && got != c.want {
				t.Fatalf("%v, want %s", err, c.want)
			}
			held, err := dst.Resolve(t.Context(), repo, tag)
			if c.want == "" && c.there == nil && (err != nil || !held.Digest.Equal(sig.Digest)) {
				t.Errorf("the tag names %s: %v", held.Digest, err)
			}
		})
	}
}
