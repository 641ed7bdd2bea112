package promote

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
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
	var layers []oci.Signature
	for _, text := range texts {
		l, err := static.NewSignature([]byte(text), "", static.WithLayerMediaType(types.MediaType(media)))
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	parcel, err := registry.AttachedManifest(layers)
	if err == nil {
		err = parcel.PushTo(t.Context(), to, repo)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := parcel.Descriptor
	if tag != "" {
		if err := to.Tag(t.Context(), repo, tag, d); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// payload is what a signature of an image says, as somebody signed it.
func payload(who string) string {
	return `{"critical":{"identity":{"docker-reference":"demo"},"image":{"docker-manifest-digest":"sha256:` + strings.Repeat("0", 64) +
		`"},"type":"cosign container image signature"},"optional":{"who":"` + who + `"}}`
}

const envelope = `{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[{"sig":"AA=="}]}`

// TestCopyAttached: older evidence travels with its image; a tag that is there
// is never moved, and what is no evidence stays behind and is named, while the
// image goes.
func TestCopyAttached(t *testing.T) {
	const layer = "application/vnd.oci.image.layer.v1.tar"
	ours, theirs := payload("ours"), payload("theirs")
	for name, c := range map[string]struct {
		media string
		holds []string
		index bool     // that leads to it
		there []string // what the destination's tag attaches already
		left  bool
		want  verdict.Code
	}{
		"nothing is there":               {legacy.MediaPayload, []string{ours}, false, nil, false, ""},
		"the same is there":              {legacy.MediaPayload, []string{ours}, false, []string{ours}, false, ""},
		"more is there":                  {legacy.MediaPayload, []string{ours}, false, []string{theirs, ours}, false, ""},
		"something else is there":        {legacy.MediaPayload, []string{ours}, false, []string{theirs}, false, verdict.TagConflict},
		"an attestation, which is fine":  {legacy.MediaEnvelope, []string{envelope}, false, nil, false, ""},
		"an image":                       {layer, []string{"#!/bin/sh"}, false, nil, true, ""},
		"a list of images":               {layer, []string{"#!/bin/sh"}, true, nil, true, ""},
		"a list of evidence":             {legacy.MediaPayload, []string{ours}, true, nil, true, ""},
		"a program called a payload":     {legacy.MediaPayload, []string{"#!/bin/sh"}, false, nil, true, ""},
		"a program called an envelope":   {legacy.MediaEnvelope, []string{"#!/bin/sh"}, false, nil, true, ""},
		"evidence, and a program":        {legacy.MediaPayload, []string{ours, "#!/bin/sh"}, false, nil, true, ""},
		"a program as the configuration": {legacy.MediaPayload, []string{ours}, false, nil, true, ""},
		"nothing at all":                 {legacy.MediaPayload, nil, false, nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := layout(t), layout(t)
			d := push(t, src, "v1", layer, "content")
			tag := registry.AttachedTag(d.Digest, registry.SuffixSignatures)
			sig := push(t, src, tag, c.media, c.holds...)
			if c.index {
				sig = list(t, src, tag, sig)
			}
			if name == "a program as the configuration" {
				program := push(t, src, "", legacy.MediaPayload, c.holds[0], "#!/bin/sh") // brings the program's bytes
				sig = configured(t, src, tag, program, "#!/bin/sh", c.holds[0])
			}
			push(t, dst, "", layer, "something else") // so that there is a registry
			if c.there != nil {
				push(t, dst, tag, legacy.MediaPayload, c.there...)
			}
			image := Image{Repository: repo, Digest: d.Digest, Size: d.Size, MediaType: d.MediaType}
			left := ""
			err := copyAttached(t.Context(), image, From{Images: src}, To{Images: dst, Left: func(tag, why string) { left += tag + ": " + why }})
			if got := verdict.FindingOf("", err).Code; err == nil && c.want != "" || err != nil && got != c.want {
				t.Fatalf("%v, want %s", err, c.want)
			}
			if (left != "") != c.left || c.left && !strings.HasPrefix(left, repo+":"+tag+": ") {
				t.Errorf("left behind %q, want %v", left, c.left)
			}
			held, err := dst.Resolve(t.Context(), repo, tag)
			if c.want == "" && c.there == nil && !c.left && (err != nil || !held.Digest.Equal(sig.Digest)) {
				t.Errorf("the tag names %s: %v", held.Digest, err)
			}
			if c.left && !errors.Is(err, registry.ErrNotFound) {
				t.Errorf("it went along as %s: %v", held.Digest, err)
			}
		})
	}
}

// configured writes a manifest like another one, with a configuration that the
// other has as a layer, and one layer.
func configured(t *testing.T, to *registry.Layout, tag string, like registry.Descriptor, config, layer string) registry.Descriptor {
	t.Helper()
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`,
		like.MediaType, digest.Of(digest.SHA256, []byte(config)), len(config), legacy.MediaPayload, digest.Of(digest.SHA256, []byte(layer)), len(layer))
	d := registry.Descriptor{MediaType: like.MediaType, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if err := to.PushManifest(t.Context(), repo, d, raw); err != nil {
		t.Fatal(err)
	}
	if err := to.Tag(t.Context(), repo, tag, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// list writes a list of one image, and names it by a tag.
func list(t *testing.T, to *registry.Layout, tag string, of registry.Descriptor) registry.Descriptor {
	t.Helper()
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":"amd64"}}]}`,
		registry.MediaTypeIndex, of.MediaType, of.Digest, of.Size)
	d := registry.Descriptor{MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if err := to.PushManifest(t.Context(), repo, d, raw); err != nil {
		t.Fatal(err)
	}
	if err := to.Tag(t.Context(), repo, tag, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTaggedMeanwhile: a tag that somebody else set since the image was copied
// is not moved.
func TestTaggedMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]bool{"nobody": false, "somebody else": true} {
		dst := layout(t)
		d, other := push(t, dst, "", "application/x", "content"), push(t, dst, "", "application/x", "other")
		if meanwhile {
			if err := dst.Tag(t.Context(), repo, "v1", other); err != nil {
				t.Fatal(err)
			}
		}
		image := Image{Repository: repo, Digest: d.Digest, Size: d.Size, MediaType: d.MediaType, Tags: []string{"v1"}}
		err := tagImage(t.Context(), image, To{Images: dst})
		if meanwhile != (err != nil) || err != nil && verdict.FindingOf("", err).Code != verdict.TagConflict {
			t.Errorf("%s: %v", name, err)
		}
		want := d
		if meanwhile {
			want = other
		}
		if held, err := dst.Resolve(t.Context(), repo, "v1"); err != nil || !held.Digest.Equal(want.Digest) {
			t.Errorf("%s: the tag names %s, %v", name, held.Digest, err)
		}
	}
}

// meanwhile is a registry where somebody does something while evidence is copied
// there.
type meanwhile struct {
	*registry.Layout
	do func()
}

func (m meanwhile) PushManifest(ctx context.Context, repo string, d registry.Descriptor, raw []byte) error {
	m.do()
	return m.Layout.PushManifest(ctx, repo, d, raw)
}

// TestEvidenceTaggedMeanwhile: a tag for evidence that somebody set while ours
// was copied is not moved; it does if it attaches ours, too.
func TestEvidenceTaggedMeanwhile(t *testing.T) {
	ours, theirs := payload("ours"), payload("theirs")
	for name, row := range map[string]struct {
		set  []string
		want verdict.Code
	}{
		"nobody":             {nil, ""},
		"ours, and one more": {[]string{theirs, ours}, ""},
		"another one":        {[]string{theirs}, verdict.TagConflict},
		"the same":           {[]string{ours}, ""},
	} {
		src, dst := layout(t), layout(t)
		d := push(t, src, "v1", "application/x", "content")
		tag := registry.AttachedTag(d.Digest, registry.SuffixSignatures)
		want := push(t, src, tag, legacy.MediaPayload, ours)
		push(t, dst, "", "application/x", "something else")
		to := To{Images: meanwhile{dst, func() {
			if row.set != nil {
				want = push(t, dst, tag, legacy.MediaPayload, row.set...)
			}
		}}}
		err := copyAttached(t.Context(), Image{Repository: repo, Digest: d.Digest, Size: d.Size, MediaType: d.MediaType}, From{Images: src}, to)
		if got := verdict.FindingOf("", err).Code; err == nil && row.want != "" || err != nil && got != row.want {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
		if held, err := dst.Resolve(t.Context(), repo, tag); err != nil || !held.Digest.Equal(want.Digest) {
			t.Errorf("%s: the tag names %s, %v; want %s", name, held.Digest, err, want.Digest)
		}
	}
}
