package legacy

import (
	"bytes"
	"unicode/utf8"

	simple "github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/waybill-release/waybill/pkg/document/intoto"
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

// CheckLayer refuses a layer of an evidence tag that does not have its declared
// type: the payload of a signature, the envelope of an attestation, or an SBOM,
// which is text. It does not verify signatures.
func CheckLayer(mediaType string, raw []byte) (err error) {
	switch mediaType {
	case MediaPayload:
		_, err = ParsePayload(raw)
	case MediaEnvelope:
		_, err = intoto.ParseEnvelope(raw)
	case "text/spdx", "text/spdx+json", "text/spdx+xml", "spdx+json", "application/vnd.cyclonedx", "application/vnd.cyclonedx+json", "application/vnd.cyclonedx+xml", "application/vnd.syft+json":
		if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 || bytes.HasPrefix(raw, []byte("#!")) {
			err = verdict.Refuse(verdict.StatementParse, "layer", "the layer is declared as %s, but is not text", mediaType)
		}
	default:
		err = verdict.Refuse(verdict.MaterialKind, "layer", "the layer is declared as %.100q, want the payload of a signature or the envelope of an attestation", mediaType)
	}
	return err
}
