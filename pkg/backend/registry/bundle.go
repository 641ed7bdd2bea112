package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Constants of a Sigstore bundle in a registry, as written by cosign v3.
const (
	// mediaTypeBundle is the artifact type and the layer type.
	mediaTypeBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// annotationPredicate carries the predicate type of the statement.
	annotationPredicate = "dev.sigstore.bundle.predicateType"
	// annotationContent says what the bundle holds.
	annotationContent = "dev.sigstore.bundle.content"
	// annotationLayer repeats digest and size of the bundle, so that a client
	// that lists referrers can read it without reading the referrer. It is a
	// hint: the bundle must prove itself.
	annotationLayer = "dev.waybill.bundle.layer"

	mediaTypeEmpty = "application/vnd.oci.empty.v1+json"
)

// Blob is bytes and their descriptor.
type Blob struct {
	Descriptor Descriptor
	Bytes      []byte
}

// BundleManifest returns the OCI 1.1 manifest by which a Sigstore bundle refers
// to subject: its descriptor, its bytes, and the blobs that must be pushed
// before it. The same arguments give the same bytes, so a push is idempotent;
// cosign's annotation with the time of the push, which no client reads, is left
// out for that reason.
//
// The subject must be the one that the bundle's statement is about; this is not
// checked here. It panics if the subject has no SHA-256 digest.
func BundleManifest(subject Descriptor, bundle []byte, predicateType string) (Descriptor, []byte, []Blob) {
	return HintedManifest(subject, bundle, predicateType, nil)
}

// HintedManifest is [BundleManifest] with more annotations, such as the ids of
// the run that made the bundle. They are unsigned hints and prove nothing. The
// bundle's own annotations take precedence.
func HintedManifest(subject Descriptor, bundle []byte, predicateType string, hints map[string]string) (Descriptor, []byte, []Blob) {
	about := mustWire(subject)
	config := blobOf(mediaTypeEmpty, []byte("{}"))
	layer := blobOf(mediaTypeBundle, bundle)
	annotations := maps.Clone(hints)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationContent] = "dsse-envelope"
	annotations[annotationPredicate] = predicateType
	annotations[annotationLayer] = layerHint(layer.Descriptor)
	manifest := v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  mediaTypeBundle,
		Config:        mustWire(config.Descriptor),
		Layers:        []v1.Descriptor{mustWire(layer.Descriptor)},
		Subject:       &about,
		Annotations:   annotations,
	}
	manifest.Config.ArtifactType = mediaTypeBundle // cosign sets both
	raw, err := json.Marshal(manifest)
	if err != nil {
		panic("registry: encoding a manifest: " + err.Error())
	}
	d := blobOf(MediaTypeManifest, raw).Descriptor
	d.ArtifactType, d.Annotations = manifest.ArtifactType, manifest.Annotations
	return d, raw, []Blob{config, layer}
}

// Refers reports whether a bundle already refers to a manifest, with any hints.
func Refers(ctx context.Context, src Source, repo string, to digest.Digest, bundle []byte) (bool, error) {
	_, is, err := ReferrerOf(ctx, src, repo, to, bundle)
	return is, err
}

// ReferrerOf returns the manifest by which a bundle already refers to another
// manifest, with any hints, and whether there is one.
func ReferrerOf(ctx context.Context, src Source, repo string, to digest.Digest, bundle []byte) (Descriptor, bool, error) {
	there, err := src.Referrers(ctx, repo, to)
	if err != nil {
		return Descriptor{}, false, err
	}
	hint := layerHint(blobOf(mediaTypeBundle, bundle).Descriptor)
	i := slices.IndexFunc(there, func(d Descriptor) bool { return d.Annotations[annotationLayer] == hint })
	if i < 0 {
		return Descriptor{}, false, nil
	}
	return there[i], true, nil
}

// layerHint is the value of annotationLayer for a bundle.
func layerHint(layer Descriptor) string { return fmt.Sprintf("%s %d", layer.Digest, layer.Size) }

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
