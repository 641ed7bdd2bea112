package legacy

import (
	simple "github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPayload bounds a payload; cosign's have some hundred bytes.
const maxPayload = 1 << 20

// Payload is what the signature of an image says: "simple signing". It is
// parsed; who signed it is for pkg/judge/verify.
type Payload struct {
	// Image is the digest of the manifest.
	Image digest.Digest
	// Reference is how the signer called the image. Registries move images,
	// so it says where an image was, not where it must be.
	Reference string
}

// ParsePayload reads what the signature of an image says. What the signer
// calls critical must be understood, so a field more is refused there; what it
// calls optional is passed over.
func ParsePayload(raw []byte) (Payload, error) {
	var w simple.SimpleContainerImage
	if err := strictjson.Unmarshal(raw, &w, strictjson.MaxSize(maxPayload)); err != nil {
		return Payload{}, verdict.Wrap(verdict.StatementParse, "payload", err)
	}
	if w.Critical == (simple.Critical{}) {
		return Payload{}, verdict.Refuse(verdict.StatementParse, "payload", "it has no critical part")
	}
	if w.Critical.Type != simple.CosignSignatureType {
		return Payload{}, verdict.Refuse(verdict.PayloadType, "payload", "it is a %.100q, want a %q", w.Critical.Type, simple.CosignSignatureType)
	}
	image, err := digest.Parse(w.Critical.Image.DockerManifestDigest)
	if err != nil {
		return Payload{}, verdict.Wrap(verdict.StatementParse, "payload", err)
	}
	return Payload{Image: image, Reference: w.Critical.Identity.DockerReference}, nil
}
