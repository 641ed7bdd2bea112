package registry

import (
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/empty"
	"github.com/sigstore/cosign/v2/pkg/oci/mutate"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// AttachedTag is the tag by which evidence is attached to a manifest in
// registries without referrers.
func AttachedTag(d digest.Digest, suffix string) string {
	return d.Algorithm().String() + "-" + d.Hex() + suffix
}

// AttachedManifest returns the manifest for such a tag, in cosign's form: an
// image whose layers are the evidence. Its blobs must be pushed first. The same
// layers give the same bytes.
func AttachedManifest(layers []oci.Signature) (Parcel, error) {
	image, err := mutate.AppendSignatures(empty.Signatures(), false, layers...)
	if err != nil {
		return Parcel{}, err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return Parcel{}, err
	}
	parcel := Parcel{Blobs: []Blob{blobOf(string(types.OCIConfigJSON), config)}}
	for _, l := range layers {
		payload, err := l.Payload()
		if err != nil {
			return Parcel{}, err
		}
		media, err := l.MediaType()
		if err != nil {
			return Parcel{}, err
		}
		parcel.Blobs = append(parcel.Blobs, blobOf(string(media), payload))
	}
	if parcel.Raw, err = image.RawManifest(); err != nil {
		return Parcel{}, err
	}
	parcel.Descriptor = blobOf(MediaTypeManifest, parcel.Raw).Descriptor
	return parcel, nil
}
