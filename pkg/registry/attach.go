package registry

import (
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/digest"
)

// AttachedTag is the tag by which evidence is attached to a manifest where
// there are no referrers.
func AttachedTag(d digest.Digest, suffix string) string {
	return d.Algorithm().String() + "-" + d.Hex() + suffix
}

// AttachedManifest returns the manifest that such a tag names, in the form of
// an image whose layers are the evidence: its descriptor, its bytes, and the
// blobs that must be pushed before it. Of each layer only the media type and
// the annotations are taken. The same layers give the same bytes. It panics if
// it cannot be written.
func AttachedManifest(layers []Attached) (Descriptor, []byte, []Blob) {
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	config := v1.ConfigFile{RootFS: v1.RootFS{Type: "layers"}}
	blobs := make([]Blob, 1, 1+len(layers))
	for _, l := range layers {
		b := blobOf(l.Descriptor.MediaType, l.Bytes)
		wire := mustWire(b.Descriptor)
		wire.Annotations = l.Descriptor.Annotations
		manifest.Layers = append(manifest.Layers, wire)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, wire.Digest)
		blobs = append(blobs, b)
	}
	raw := mustJSON(config)
	blobs[0] = blobOf(string(types.OCIConfigJSON), raw)
	manifest.Config = mustWire(blobs[0].Descriptor)
	raw = mustJSON(manifest)
	return blobOf(MediaTypeManifest, raw).Descriptor, raw, blobs
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("registry: a manifest cannot be written: " + err.Error())
	}
	return raw
}
