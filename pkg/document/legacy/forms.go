package legacy

import (
	"github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// carried parses the log entry that cosign stores beside a signature. Only its
// promise proves anything, because it has no inclusion proof.
func carried(log bundle.RekorBundle) (*Entry, error) {
	switch there := log.Payload != (bundle.RekorPayload{}); {
	case !there && len(log.SignedEntryTimestamp) == 0:
		return nil, verdict.Refuse(verdict.BundleLacks, "log entry", "Payload and SignedEntryTimestamp, the log's promise, are missing")
	case !there:
		return nil, verdict.Refuse(verdict.BundleLacks, "log entry", "Payload, which says what was logged, is missing")
	case len(log.SignedEntryTimestamp) == 0:
		return nil, verdict.Refuse(verdict.BundleLacks, "log entry", "SignedEntryTimestamp, the log's promise, is missing")
	}
	e, err := entryFrom(log.Payload)
	if err != nil {
		return nil, err
	}
	e.promise = log.SignedEntryTimestamp
	return &e, nil
}

// wireBundle is the bundle format that cosign used before Sigstore's.
type wireBundle struct {
	Signature   string              `json:"base64Signature"`
	Certificate string              `json:"cert"`
	Log         *bundle.RekorBundle `json:"rekorBundle"`
}

// ParseBundle parses cosign's legacy bundle of a blob signature. The log entry
// may be missing: see [Material.With].
func ParseBundle(by Signer, artifact digest.Digest, raw []byte) (Material, error) {
	var w wireBundle
	if err := unmarshal(raw, &w); err != nil {
		return Material{}, verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	p := parts{signature: []byte(w.Signature), certificate: []byte(w.Certificate)}
	if w.Log != nil {
		var err error
		if p.entry, err = carried(*w.Log); err != nil {
			return Material{}, err
		}
	}
	return parse(by, artifact, p)
}

func unmarshal(raw []byte, v any) error {
	return strictjson.Unmarshal(raw, v, strictjson.MaxSize(MaxBundle))
}

// IsBundle reports whether raw has the shape of cosign's legacy bundle, to
// choose a parser for it.
func IsBundle(raw []byte) bool {
	var w wireBundle
	return unmarshal(raw, &w) == nil && w.Signature != ""
}

// ParseLayer parses a layer of a tag sha256-<digest>.sig: the annotations
// contain the signature, and the layer is what was signed. [ParsePayload]
// parses what that says about an image.
func ParseLayer(by Signer, layer oci.Signature) (Material, error) {
	payload, p, err := partsOf(layer)
	if err != nil {
		return Material{}, err
	}
	m, err := parse(by, digest.Of(digest.SHA256, payload), p)
	m.payload = payload
	return m, err
}

// ParseAttestation parses a layer of a tag sha256-<digest>.att: the layer is an
// envelope with exactly one signature.
func ParseAttestation(by Signer, layer oci.Signature) (Material, error) {
	envelope, p, err := partsOf(layer)
	if err != nil {
		return Material{}, err
	}
	e, err := intoto.ParseEnvelope(envelope)
	if err != nil {
		return Material{}, err
	}
	if len(e.Signatures) != 1 {
		return Material{}, verdict.Refuse(verdict.SigCount, "envelope", "%d signatures, want 1", len(e.Signatures))
	}
	p.envelope = &e
	return parse(by, digest.Of(digest.SHA256, e.Payload), p)
}

// partsOf parses the bytes and the annotations of a layer. Cosign's own parser
// accepts JSON with duplicate keys, and text beside the PEM of a certificate;
// this one does not.
func partsOf(layer oci.Signature) (payload []byte, p parts, err error) {
	annotations, err := layer.Annotations()
	if err == nil {
		payload, err = layer.Payload()
	}
	if err != nil {
		return nil, parts{}, verdict.Wrap(verdict.BundleParse, "layer", err)
	}
	p = parts{
		signature:   []byte(annotations[static.SignatureAnnotationKey]),
		certificate: []byte(annotations[static.CertificateAnnotationKey]),
		chain:       []byte(annotations[static.ChainAnnotationKey]),
	}
	if text := annotations[static.BundleAnnotationKey]; text != "" {
		var log bundle.RekorBundle
		if err := unmarshal([]byte(text), &log); err != nil {
			return nil, parts{}, verdict.Wrap(verdict.LogEntryParse, "log entry", err)
		}
		if p.entry, err = carried(log); err != nil {
			return nil, parts{}, err
		}
	}
	if text := annotations[static.RFC3161TimestampAnnotationKey]; text != "" {
		var token bundle.RFC3161Timestamp
		if err := unmarshal([]byte(text), &token); err != nil {
			return nil, parts{}, verdict.Wrap(verdict.TimeInvalid, "timestamp", err)
		}
		p.timestamp = token.SignedRFC3161Timestamp
	}
	return payload, p, nil
}
