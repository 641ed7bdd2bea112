package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// saved lists the images of an archive that docker save wrote: manifest.json
// names a configuration and layers for each, and the configuration binds the
// layers. The manifest is ours to make.
func (a *archiveFS) saved() ([]v1.Image, error) {
	raw, err := a.whole("manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, verdict.Refuse(verdict.FileType, "archive", "it holds neither index.json nor manifest.json: want an OCI image layout, or what docker save writes")
	}
	if err != nil {
		return nil, err
	}
	var entries []struct {
		Config string
		Layers []string
	}
	if err := decodeStrict(raw, &entries); err != nil {
		return nil, verdict.Wrap(verdict.FileType, "manifest.json", err)
	}
	var list []v1.Image
	for _, e := range entries {
		img, err := a.assembled(e.Config, e.Layers)
		if err != nil {
			return nil, err
		}
		list = append(list, img)
	}
	return list, nil
}

// assembled is the image of a configuration and layers.
func (a *archiveFS) assembled(config string, layers []string) (v1.Image, error) {
	c, err := a.part(config)
	if err != nil {
		return nil, err
	}
	raw, err := a.whole(c.name)
	if err != nil {
		return nil, err
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: describe(types.OCIConfigJSON, raw), Layers: []v1.Descriptor{}}
	if sum, named := strings.CutSuffix(path.Base(config), ".json"); named && len(sum) == 64 && sum != m.Config.Digest.Hex {
		return nil, verdict.Refuse(verdict.Tampered, bounded(config), "the configuration is not the one that its name says")
	}
	where := map[v1.Hash]string{}
	for _, name := range layers {
		l, err := a.part(name)
		if err != nil {
			return nil, err
		}
		d, err := a.descriptor(l)
		if err != nil {
			return nil, err
		}
		where[d.Digest] = l.name
		m.Layers = append(m.Layers, d)
	}
	manifest, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding manifest: %w", err)
	}
	return partial.CompressedToImage(&core{kind: types.OCIManifestSchema1, manifest: manifest, config: raw, open: func(h v1.Hash) (io.ReadCloser, error) {
		return a.Open(where[h])
	}})
}

// part is a file that a document of the archive names.
type part struct{ name string }

func (a *archiveFS) part(name string) (part, error) {
	clean, err := inside(name)
	if err != nil {
		return part{}, err
	}
	f, err := a.Open(clean)
	if err != nil {
		return part{}, verdict.Refuse(verdict.Missing, bounded(name), "manifest.json names it, and the archive does not hold it")
	}
	return part{clean}, f.Close()
}

// descriptor says what a layer is, by its first bytes: what is saved has no
// media types.
func (a *archiveFS) descriptor(p part) (v1.Descriptor, error) {
	f, err := a.Open(p.name)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer f.Close()
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return v1.Descriptor{}, err
	}
	sum, size, err := digest.SumSHA256(io.MultiReader(bytes.NewReader(head[:n]), f))
	if err != nil {
		return v1.Descriptor{}, err
	}
	kind := types.OCIUncompressedLayer
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		kind = types.OCILayer
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		kind = types.OCILayerZStd
	}
	return v1.Descriptor{MediaType: kind, Digest: hash(sum), Size: size}, nil
}
