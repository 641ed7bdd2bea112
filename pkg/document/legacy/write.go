package legacy

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"

	"github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/cosign/v2/pkg/types"
	simple "github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The media types of layers that carry signatures and attestations.
const (
	MediaPayload  = types.SimpleSigningMediaType
	MediaEnvelope = types.DssePayloadType
)

// annotationPredicate is the annotation with the predicate type of an
// attestation.
const annotationPredicate = "predicateType"

// New is a new signature of bytes, with the certificate of its key in DER. To
// sign in a legacy form, make the log entry from it: see [Material.Proposal].
func New(signed digest.Digest, signature, certificate []byte) (Material, error) {
	return made(Material{signed: signed, signature: signature}, certificate)
}

// NewAttestation is [New] for a statement, for which it makes the envelope.
func NewAttestation(payload, signature, certificate []byte) (Material, error) {
	envelope := &intoto.Envelope{PayloadType: intoto.PayloadType, Payload: payload, Signatures: []intoto.Signature{{Sig: signature}}}
	return made(Material{signed: digest.Of(digest.SHA256, payload), signature: signature, envelope: envelope}, certificate)
}

func made(m Material, certificate []byte) (Material, error) {
	if m.signed.Algorithm() != digest.SHA256 || len(m.signature) == 0 {
		return Material{}, verdict.Refuse(verdict.NoArtifact, "signature", "the SHA-256 digest or the signature is missing")
	}
	if _, err := x509.ParseCertificate(certificate); err != nil {
		return Material{}, verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	m.chain = [][]byte{certificate}
	return m, nil
}

// Proposal is the entry to be added to a log of version 1: for bytes a
// hashedrekord 0.0.1, for a statement a dsse 0.0.1.
func (m Material) Proposal() ([]byte, error) {
	if m.leaf() == nil {
		return nil, verdict.Refuse(verdict.CertMissing, "signature", "the material has no certificate")
	}
	if !m.IsAttestation() {
		return recordOf(m), nil
	}
	envelope, err := m.Layer()
	if err != nil {
		return nil, err
	}
	var p struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			Proposed struct {
				Envelope  string   `json:"envelope"`
				Verifiers [][]byte `json:"verifiers"`
			} `json:"proposedContent"`
		} `json:"spec"`
	}
	p.APIVersion, p.Kind = "0.0.1", "dsse"
	p.Spec.Proposed.Envelope, p.Spec.Proposed.Verifiers = string(envelope), [][]byte{encodePEM(m.chain[:1])}
	return json.Marshal(p)
}

// writings are the texts in which programs send an envelope to a log. Readers
// of the legacy forms compare the text of the layer with the one in the log, so
// it must be the text that was sent, which a bundle does not contain.
var writings = [...]string{
	`{"payloadType":%[1]q,"payload":%[2]q,"signatures":[{"keyid":"","sig":%[3]q}]}`, // ours, and cosign 2's
	`{"payload":%[2]q,"payloadType":%[1]q,"signatures":[{"sig":%[3]q}]}`,            // sigstore-go's, so cosign 3's
	`{"payload":%[2]q,"payloadType":%[1]q,"signatures":[{"sig":%[3]q,"keyid":""}]}`, // sigstore-js's
	`{"payload": %[2]q, "payloadType": %[1]q, "signatures": [{"sig": %[3]q}]}`,      // sigstore-python's
	`{"payload":%[2]q,"payloadType":%[1]q,"signatures":[{"keyid":"","sig":%[3]q}]}`, // with the fields sorted
	`{"payload": %[2]q, "payloadType": %[1]q, "signatures": [{"keyid": "", "sig": %[3]q}]}`,
}

// Layer is the layer of a tag sha256-<digest>.att for an attestation: its
// envelope, in the text that the log has. The layer of a signature is the
// payload, which the signer has.
func (m Material) Layer() ([]byte, error) {
	if !m.IsAttestation() {
		return nil, verdict.Refuse(verdict.MaterialKind, "signature", "the material signs bytes, not an attestation")
	}
	for _, form := range writings {
		raw := m.writing(form)
		if m.entry == nil || m.entry.said.envelope == "" || m.entry.said.envelope == digest.Of(digest.SHA256, raw).String() {
			return raw, nil
		}
	}
	return nil, verdict.Refuse(verdict.BundleLacks, "signature", "the log has the envelope in an unknown text form, which older clients compare with the layer")
}

func (m Material) writing(form string) []byte {
	return fmt.Appendf(nil, form, m.envelope.PayloadType, text(m.envelope.Payload), text(m.signature))
}

// Files are the contents of .sig and .cert beside a file, byte for byte as
// cosign writes them: base64 of the signature, and base64 of the certificate's
// PEM.
func (m Material) Files() (signature, certificate []byte) {
	return text(m.signature), text(encodePEM(m.chain[:min(1, len(m.chain))]))
}

// Attached is the layer of a tag with the signature and a log entry that has a
// promise. For a signature, it is the signed payload; for an attestation, its
// envelope, and kind is the predicate type. The chain contains the authorities,
// without the signer's certificate.
func (m Material) Attached(payload []byte, chain [][]byte, kind string) (oci.Signature, error) {
	if m.entry == nil || len(m.entry.promise) == 0 || m.leaf() == nil {
		return nil, verdict.Refuse(verdict.BundleLacks, "signature", "the material has no certificate, or no log entry with a promise")
	}
	options := []static.Option{
		static.WithCertChain(encodePEM(m.chain[:1]), encodePEM(chain)),
		static.WithBundle(&bundle.RekorBundle{SignedEntryTimestamp: m.entry.promise, Payload: bundle.RekorPayload{
			Body: string(text(m.entry.body)), IntegratedTime: m.entry.integrated, LogIndex: m.entry.index, LogID: hex.EncodeToString(m.entry.log),
		}}),
	}
	if !m.IsAttestation() {
		if !digest.Of(digest.SHA256, payload).Equal(m.signed) {
			return nil, verdict.Refuse(verdict.NotBound, "signature", "the signature is of %s, not of this payload", m.signed)
		}
		return static.NewSignature(payload, string(text(m.signature)), options...)
	}
	envelope, err := m.Layer()
	if err != nil {
		return nil, err
	}
	return static.NewAttestation(envelope, append(options, static.WithLayerMediaType(MediaEnvelope),
		static.WithAnnotations(map[string]string{annotationPredicate: kind}))...)
}

// Certificate is that of the signer, in DER; nil for a key.
func (m Material) Certificate() []byte { return m.leaf() }

// Bytes writes the content of an image signature. The same image and name give
// the same bytes.
func (p Payload) Bytes() ([]byte, error) {
	if p.Image.Algorithm() != digest.SHA256 || p.Reference == "" {
		return nil, verdict.Refuse(verdict.NoArtifact, "payload", "an image needs a SHA-256 digest and a name")
	}
	return json.Marshal(simple.SimpleContainerImage{Critical: simple.Critical{
		Type: simple.CosignSignatureType, Identity: simple.Identity{DockerReference: p.Reference}, Image: simple.Image{DockerManifestDigest: p.Image.String()},
	}})
}

func encodePEM(chain [][]byte) (all []byte) {
	for _, der := range chain {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der})...)
	}
	return all
}

func text(raw []byte) []byte { return base64.StdEncoding.AppendEncode(nil, raw) }
