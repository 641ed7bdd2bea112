package legacy

import (
	"bytes"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// CheckLayer refuses the layer of a tag for evidence that is not what its type
// says: the payload of a signature, the envelope of an attestation, or an SBOM,
// which is a text. Whether it is signed, or true, is not asked.
func CheckLayer(mediaType string, raw []byte) error {
	var err error
	switch mediaType {
	case MediaPayload:
		_, err = ParsePayload(raw)
	case MediaEnvelope:
		_, err = intoto.ParseEnvelope(raw)
	case "text/spdx", "text/spdx+json", "text/spdx+xml", "spdx+json", "application/vnd.cyclonedx", "application/vnd.cyclonedx+json", "application/vnd.cyclonedx+xml", "application/vnd.syft+json":
		if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 || bytes.HasPrefix(raw, []byte("#!")) {
			err = verdict.Refuse(verdict.StatementParse, "layer", "it is called %s, and is no text", mediaType)
		}
	default:
		err = verdict.Refuse(verdict.MaterialKind, "layer", "it is a %.100q, want the payload of a signature or the envelope of an attestation", mediaType)
	}
	return err
}
