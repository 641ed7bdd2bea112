package legacy

import (
	simple "github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPayload limits a payload; cosign's have some hundred bytes.
const maxPayload = 1 << 20

// Payload is the content of an image signature: "simple signing". It is parsed;
// pkg/judge/verify verifies the signer.
type Payload struct {
	// Image is the digest of the manifest.
	Image digest.Digest
	// Reference is the signer's name for the image. Images are copied between
	// registries, so it is not necessarily their current name.
	Reference string
}

// ParsePayload parses the content of an image signature. Unknown fields under
// "critical" are refused, because they must be understood; those under
// "optional" are ignored.
func ParsePayload(raw []byte) (Payload, error) {
	var w simple.SimpleContainerImage
	if err := strictjson.Unmarshal(raw, &w, strictjson.MaxSize(maxPayload)); err != nil {
		return Payload{}, verdict.Wrap(verdict.StatementParse, "payload", err)
	}
	if w.Critical == (simple.Critical{}) {
		return Payload{}, verdict.Refuse(verdict.StatementParse, "payload", "the payload has no critical part")
	}
	if w.Critical.Type != simple.CosignSignatureType {
		return Payload{}, verdict.Refuse(verdict.PayloadType, "payload", "the payload is of type %.100q, want %q", w.Critical.Type, simple.CosignSignatureType)
	}
	image, err := digest.Parse(w.Critical.Image.DockerManifestDigest)
	if err != nil {
		return Payload{}, verdict.Wrap(verdict.StatementParse, "payload", err)
	}
	return Payload{Image: image, Reference: w.Critical.Identity.DockerReference}, nil
}
