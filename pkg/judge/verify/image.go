package verify

import (
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Image verifies a bundle that signs a "simple signing" payload, the older form
// of an image signature, and that the payload names exactly this image.
func (v *Verifier) Image(raw, payload []byte, image digest.Digest) (Evidence, error) {
	return ofImage(raw, payload, image, v.Blob)
}

// Image verifies the key's signature over a payload that names exactly this
// image.
func (k *KeyVerifier) Image(raw, payload []byte, image digest.Digest) (Evidence, error) {
	return ofImage(raw, payload, image, k.Blob)
}

// ofImage parses the payload only after its signature has been proven.
func ofImage(raw, payload []byte, image digest.Digest, prove func([]byte, digest.Set) (Evidence, error)) (Evidence, error) {
	if image.IsZero() {
		return Evidence{}, verdict.Refuse(verdict.NoArtifact, "bundle", "no image was given to compare with the signature")
	}
	e, err := prove(raw, digest.SetOf(payload))
	if err != nil {
		return Evidence{}, err
	}
	p, err := legacy.ParsePayload(payload)
	if err != nil {
		return Evidence{}, err
	}
	if !p.Image.Equal(image) {
		return Evidence{}, &verdict.Error{Finding: verdict.Find(verdict.NotBound, "payload", "the signature is authentic, but for another image").
			Differ(image.String(), p.Image.String()).Citing(e.bundle)}
	}
	e.artifact, e.image = digest.Set{}, image
	return e, nil
}
