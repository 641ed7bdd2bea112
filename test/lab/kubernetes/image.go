package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Image is an image for all platforms of servers. Each platform is published
// in the index and, the same bytes, by itself.
type Image struct {
	Name      string
	Platforms map[string]*Manifest
	Index     *Manifest
	version   version.Version
	artifact  bool // its platforms are not published by themselves
}

// Manifest is a manifest with what it names, and what was signed of it.
type Manifest struct {
	Descriptor registry.Descriptor
	Raw        []byte
	Blobs      [][]byte
	// Signatures are attached where the manifest is published, by the name of
	// the repository.
	Signatures map[string][]Attached
	// Referring are the statements that refer to it there.
	Referring map[string][]Referring
}

// Attached is a signature with the payload that it is of.
type Attached struct {
	Payload []byte
	Signature
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func describe(mediaType string, b []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, b).String(), Size: len(b)}
}

func newManifest(mediaType string, v any, blobs ...[]byte) *Manifest {
	raw := encodeJSON(v)
	return &Manifest{
		Descriptor: registry.Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))},
		Raw:        raw, Blobs: blobs, Signatures: map[string][]Attached{}, Referring: map[string][]Referring{},
	}
}

func encodeJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("kubernetes: " + err.Error()) // the value is ours
	}
	return raw
}

// newImage makes an image whose layers say what they are.
func newImage(v version.Version, name string) *Image {
	i := &Image{Name: name, version: v, Platforms: map[string]*Manifest{}}
	for _, platform := range serverPlatforms {
		_, arch, _ := strings.Cut(platform, "/")
		layer := fmt.Appendf(nil, "SYNTHETIC layer of %s %s for %s\n", name, v, platform)
		config := encodeJSON(map[string]any{
			"os": "linux", "architecture": arch, "config": map[string]any{}, "rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest.Of(digest.SHA256, layer).String()}},
		})
		i.Platforms[platform] = newManifest(registry.MediaTypeManifest, map[string]any{
			"schemaVersion": 2, "mediaType": registry.MediaTypeManifest, "config": describe("application/vnd.oci.image.config.v1+json", config),
			"layers": []descriptor{describe("application/vnd.oci.image.layer.v1.tar", layer)},
		}, config, layer)
	}
	i.Reindex()
	return i
}

// Archive is one platform of the image as docker saves it, under the reference
// by which it is published by itself.
func (i *Image) Archive(platform string) []byte {
	m := i.Platforms[platform]
	if m == nil {
		return nil
	}
	config := digest.Of(digest.SHA256, m.Blobs[0]).Hex() + ".json"
	var layers []string
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name string, body []byte) {
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(body))}), write(w, body)); err != nil {
			panic("kubernetes: " + err.Error()) // it is written to memory
		}
	}
	add(config, m.Blobs[0])
	for _, layer := range m.Blobs[1:] {
		layers = append(layers, digest.Of(digest.SHA256, layer).Hex()+"/layer.tar")
		add(layers[len(layers)-1], layer)
	}
	ref := "registry.k8s.io/" + k8slayout.Image{Name: i.Name, Platform: platform}.Alone() + ":" + i.version.String()
	add("manifest.json", encodeJSON([]map[string]any{{"Config": config, "RepoTags": []string{ref}, "Layers": layers}}))
	if err := w.Close(); err != nil {
		panic("kubernetes: " + err.Error()) // it is written to memory
	}
	return out.Bytes()
}

func write(w io.Writer, body []byte) error {
	_, err := w.Write(body)
	return err
}

// Reindex makes the index of the platforms that there are. It is signed by
// nobody then.
func (i *Image) Reindex() {
	var children []descriptor
	for _, platform := range slices.Sorted(maps.Keys(i.Platforms)) {
		_, arch, _ := strings.Cut(platform, "/")
		d := describe(registry.MediaTypeManifest, i.Platforms[platform].Raw)
		d.Platform = map[string]string{"os": "linux", "architecture": arch}
		children = append(children, d)
	}
	i.Index = newManifest(registry.MediaTypeIndex, map[string]any{"schemaVersion": 2, "mediaType": registry.MediaTypeIndex, "manifests": children})
}

// published are the manifests of the image, by the repositories in which each
// needs a signature.
func (i *Image) published() map[string][]*Manifest {
	at := map[string][]*Manifest{i.Name: {i.Index}}
	for platform, m := range i.Platforms {
		if at[i.Name] = append(at[i.Name], m); i.artifact {
			continue
		}
		alone := k8slayout.Image{Name: i.Name, Platform: platform}.Alone()
		at[alone] = []*Manifest{m}
	}
	return at
}

// Resign takes all signatures away and signs as these accounts.
func (i *Image) Resign(s Signer, as ...string) error {
	for _, list := range i.published() {
		for _, m := range list {
			m.Signatures = map[string][]Attached{}
		}
	}
	return i.sign(s, as...)
}

func (i *Image) sign(s Signer, as ...string) error {
	for repository, list := range i.published() {
		for _, m := range list {
			for _, account := range as {
				if err := m.Sign(s, account, repository); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Sign signs a manifest as an account, under the name of a repository.
func (m *Manifest) Sign(s Signer, as, repository string) error {
	payload := encodeJSON(map[string]any{
		"critical": map[string]any{
			"identity": map[string]string{"docker-reference": "registry.k8s.io/" + repository},
			"image":    map[string]string{"docker-manifest-digest": m.Descriptor.Digest.String()},
			"type":     "cosign container image signature",
		},
		"optional": map[string]string{"org.kubernetes.kpromo.version": "synthetic"},
	})
	signature, err := s.Sign(as, payload)
	if err == nil {
		m.Signatures[repository] = append(m.Signatures[repository], Attached{payload, signature})
	}
	return err
}

// Push publishes the image, its platforms by themselves and its signatures.
func (i *Image) Push(ctx context.Context, to registry.Sink) error {
	tag := i.version.String()
	for repository, list := range i.published() {
		slices.SortFunc(list, func(a, b *Manifest) int { return len(b.Blobs) - len(a.Blobs) }) // the index last
		for _, m := range list {
			if err := m.push(ctx, to, repository); err != nil {
				return err
			}
		}
		if err := to.Tag(ctx, repository, tag, list[len(list)-1].Descriptor); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manifest) push(ctx context.Context, to registry.Sink, repository string) error {
	for _, b := range m.Blobs {
		if err := pushBlob(ctx, to, repository, b); err != nil {
			return err
		}
	}
	if err := to.PushManifest(ctx, repository, m.Descriptor, m.Raw); err != nil {
		return err
	}
	if err := m.attach(ctx, to, repository); err != nil {
		return err
	}
	if len(m.Signatures[repository]) == 0 {
		return nil
	}
	config := []byte("{}")
	var layers []descriptor
	blobs := [][]byte{config}
	for _, s := range m.Signatures[repository] {
		d := describe("application/vnd.dev.cosign.simplesigning.v1+json", s.Payload)
		d.Annotations = map[string]string{
			"dev.cosignproject.cosign/signature": string(s.Base64), "dev.sigstore.cosign/certificate": string(s.PEM), "dev.sigstore.cosign/bundle": string(s.Log),
		}
		layers, blobs = append(layers, d), append(blobs, s.Payload)
	}
	attached := newManifest(registry.MediaTypeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": registry.MediaTypeManifest, "config": describe("application/vnd.oci.image.config.v1+json", config), "layers": layers,
	}, blobs...)
	if err := attached.push(ctx, to, repository); err != nil {
		return err
	}
	return to.Tag(ctx, repository, "sha256-"+m.Descriptor.Digest.Hex()+registry.SuffixSignatures, attached.Descriptor)
}

func pushBlob(ctx context.Context, to registry.Sink, repository string, b []byte) error {
	d := registry.Descriptor{MediaType: "application/octet-stream", Digest: digest.Of(digest.SHA256, b), Size: int64(len(b))}
	return to.PushBlob(ctx, repository, d, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
}

func (i *Image) clone() *Image {
	c := &Image{Name: i.Name, version: i.version, artifact: i.artifact, Index: i.Index.clone(), Platforms: map[string]*Manifest{}}
	for platform, m := range i.Platforms {
		c.Platforms[platform] = m.clone()
	}
	return c
}

func (m *Manifest) clone() *Manifest {
	c := *m
	c.Signatures, c.Referring = maps.Clone(m.Signatures), maps.Clone(m.Referring)
	return &c
}
