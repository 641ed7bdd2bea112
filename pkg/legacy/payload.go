package legacy

import (
	"encoding/json"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/strictjson"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// payloadType is what cosign writes into the payloads that it signs.
const payloadType = "cosign container image signature"

// maxPayload bounds a payload; cosign's have some hundred bytes.
const maxPayload = 1 << 20

// Payload is what the signature of an image says: "simple signing". It is
// parsed; who signed it is for pkg/verify.
type Payload struct {
	// Image is the digest of the manifest.
	Image digest.Digest
	// Reference is how the signer called the image. Registries move images,
	// so it says where an image was, not where it must be.
	Reference string
}

type wirePayload struct {
	Critical *critical                  `json:"critical"`
	Optional map[string]json.RawMessage `json:"optional"`
}

type critical struct {
	Identity struct {
		Reference string `json:"docker-reference"`
	} `json:"identity"`
	Image struct {
		Digest string `json:"docker-manifest-digest"`
	} `json:"image"`
	Type string `json:"type"`
}

// ParsePayload reads what the signature of an image says. What the signer
// calls critical must be understood, so a field more is refused there; what it
// calls optional is passed over.
func ParsePayload(raw []byte) (Payload, error) {
	var w wirePayload
	if err := strictjson.Unmarshal(raw, &w, strictjson.MaxSize(maxPayload)); err != nil {
		return Payload{}, verdict.Wrap(verdict.StatementParse, "payload", err)
	}
	if w.Critical == nil {
		return Payload{}, verdict.Refuse(verdict.StatementParse, "payload", "it has no critical part")
	}
	if w.Critical.Type != payloadType {
		return Payload{}, verdict.Refuse(verdict.PayloadType, "payload", "it is a %.100q, want a %q", w.Critical.Type, payloadType)
	}
	image, err := digest.Parse(w.Critical.Image.Digest)
	if err != nil {
		return Payload{}, verdict.Wrap(verdict.StatementParse, "payload", err)
	}
	return Payload{Image: image, Reference: w.Critical.Identity.Reference}, nil
}
