package legacy

import (
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/strictjson"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// The annotations of a layer that carries a signature.
const (
	annotationSignature   = "dev.cosignproject.cosign/signature"
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationChain       = "dev.sigstore.cosign/chain"
	annotationBundle      = "dev.sigstore.cosign/bundle"
	annotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
)

// wireLog is how cosign carries a log entry along: cosign/bundle/rekor.go.
type wireLog struct {
	Promise []byte     `json:"SignedEntryTimestamp"`
	Payload *wireEntry `json:"Payload"`
}

// entry reads the entry. Only its promise proves anything, for no proof of
// inclusion is carried.
func (w wireLog) entry() (*Entry, error) {
	switch {
	case w.Payload == nil && len(w.Promise) == 0:
		return nil, verdict.Refuse(verdict.BundleLacks, "log entry", "neither Payload nor SignedEntryTimestamp, the log's promise, is there")
	case w.Payload == nil:
		return nil, verdict.Refuse(verdict.BundleLacks, "log entry", "Payload, which says what was logged, is not there")
	case len(w.Promise) == 0:
		return nil, verdict.Refuse(verdict.BundleLacks, "log entry", "SignedEntryTimestamp, the log's promise, is not there")
	}
	e, err := w.Payload.entry()
	if err != nil {
		return nil, err
	}
	e.promise = w.Promise
	return &e, nil
}

// wireBundle is cosign's bundle before Sigstore's.
type wireBundle struct {
	Signature   string   `json:"base64Signature"`
	Certificate string   `json:"cert"`
	Log         *wireLog `json:"rekorBundle"`
}

// ParseBundle reads cosign's older bundle of a blob's signature. A signature
// without a log entry is one, too: see [Material.With].
func ParseBundle(by Signer, artifact digest.Digest, raw []byte) (Material, error) {
	var w wireBundle
	if err := unmarshal(raw, &w); err != nil {
		return Material{}, verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	p := parts{signature: []byte(w.Signature), certificate: []byte(w.Certificate)}
	if w.Log != nil {
		var err error
		if p.entry, err = w.Log.entry(); err != nil {
			return Material{}, err
		}
	}
	return parse(by, artifact, p)
}

func unmarshal(raw []byte, v any) error {
	return strictjson.Unmarshal(raw, v, strictjson.MaxSize(MaxBundle))
}

// IsBundle reports whether raw has the shape of cosign's older bundle, for
// those who must choose a parser by what they find.
func IsBundle(raw []byte) bool {
	var w wireBundle
	return unmarshal(raw, &w) == nil && w.Signature != ""
}

// ParseLayer reads a layer of a tag sha256-<digest>.sig: the annotations carry
// the signature, the layer is what was signed. What that says of an image is
// for [ParsePayload].
func ParseLayer(by Signer, payload []byte, annotations map[string]string) (Material, error) {
	p, err := partsOf(annotations)
	if err != nil {
		return Material{}, err
	}
	return parse(by, digest.Of(digest.SHA256, payload), p)
}

// ParseAttestation reads a layer of a tag sha256-<digest>.att: the layer is an
// envelope with exactly one signature.
func ParseAttestation(by Signer, envelope []byte, annotations map[string]string) (Material, error) {
	p, err := partsOf(annotations)
	if err != nil {
		return Material{}, err
	}
	e, err := intoto.ParseEnvelope(envelope)
	if err != nil {
		return Material{}, err
	}
	if len(e.Signatures) != 1 {
		return Material{}, verdict.Refuse(verdict.SigCount, "envelope", "%d signatures, want one", len(e.Signatures))
	}
	p.envelope = &e
	return parse(by, digest.Of(digest.SHA256, e.Payload), p)
}

func partsOf(annotations map[string]string) (p parts, err error) {
	p = parts{
		signature:   []byte(annotations[annotationSignature]),
		certificate: []byte(annotations[annotationCertificate]),
		chain:       []byte(annotations[annotationChain]),
	}
	if text := annotations[annotationBundle]; text != "" {
		var w wireLog
		if err := unmarshal([]byte(text), &w); err != nil {
			return parts{}, verdict.Wrap(verdict.LogEntryParse, "log entry", err)
		}
		if p.entry, err = w.entry(); err != nil {
			return parts{}, err
		}
	}
	if text := annotations[annotationTimestamp]; text != "" {
		var w struct {
			Token []byte `json:"SignedRFC3161Timestamp"`
		}
		if err := unmarshal([]byte(text), &w); err != nil {
			return parts{}, verdict.Wrap(verdict.TimeInvalid, "timestamp", err)
		}
		p.timestamp = w.Token
	}
	return p, nil
}
