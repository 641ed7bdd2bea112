package registry

import (
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/digest"
)

// Constants of a Sigstore bundle in a registry, as written by cosign v3.
const (
	// MediaTypeBundle is the artifact type and the layer type.
	MediaTypeBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// AnnotationPredicate carries the predicate type of the statement.
	AnnotationPredicate = "dev.sigstore.bundle.predicateType"
	// AnnotationContent says what the bundle holds.
	AnnotationContent = "dev.sigstore.bundle.content"
	// AnnotationLayer repeats the digest and the size of the bundle, so that
	// who lists referrers can read it without reading the referrer. It is a
	// hint: what it leads to proves something by itself, or nothing.
	AnnotationLayer = "dev.waybill.bundle.layer"

	mediaTypeEmpty = "application/vnd.oci.empty.v1+json"
)

// Blob is bytes and their descriptor.
type Blob struct {
	Descriptor Descriptor
	Bytes      []byte
}

// BundleManifest returns the OCI 1.1 manifest by which a Sigstore bundle
// refers to subject: its descriptor, its bytes, and the blobs that must be
// pushed before it. The same arguments give the same bytes, so repeating a
// push adds nothing; cosign's annotation with the time of the push, which
// nothing reads, is left out for that reason.
//
// The subject must be the one that the bundle's statement is about; that is
// not looked at here. It panics if the subject has no SHA-256 digest.
func BundleManifest(subject Descriptor, bundle []byte, predicateType string) (Descriptor, []byte, []Blob) {
	about := mustWire(subject)
	config := blobOf(mediaTypeEmpty, []byte("{}"))
	layer := blobOf(MediaTypeBundle, bundle)
	manifest := v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  MediaTypeBundle,
		Config:        mustWire(config.Descriptor),
		Layers:        []v1.Descriptor{mustWire(layer.Descriptor)},
		Subject:       &about,
		Annotations: map[string]string{
			AnnotationContent:   "dsse-envelope",
			AnnotationPredicate: predicateType,
			AnnotationLayer:     fmt.Sprintf("%s %d", layer.Descriptor.Digest, layer.Descriptor.Size),
		},
	}
	manifest.Config.ArtifactType = MediaTypeBundle // cosign has it in both
	raw, err := json.Marshal(manifest)
	if err != nil {
		panic("registry: a manifest cannot be written: " + err.Error())
	}
	d := blobOf(MediaTypeManifest, raw).Descriptor
	d.ArtifactType, d.Annotations = manifest.ArtifactType, manifest.Annotations
	return d, raw, []Blob{config, layer}
}

func mustWire(d Descriptor) v1.Descriptor {
	w, err := d.wire()
	if err != nil || d.Digest.Algorithm() != digest.SHA256 {
		panic("registry: a descriptor without a SHA-256 digest")
	}
	return w
}

func blobOf(mediaType string, b []byte) Blob {
	return Blob{
		Descriptor: Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, b), Size: int64(len(b))},
		Bytes:      b,
	}
}
