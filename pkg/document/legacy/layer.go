package legacy

import (
	"bytes"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// CheckLayer refuses a layer of an evidence tag that does not have its declared
// type: the payload of a signature, the envelope of an attestation, or an SBOM,
// which is text. It does not verify signatures.
func CheckLayer(mediaType string, raw []byte) error {
	var err error
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
