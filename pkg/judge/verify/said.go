package verify

import (
	"slices"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
)

// Said is what a bundle says, for a reader. It is parsed, and nobody has been
// believed: no signature, no proof and no certificate was looked at. Nothing
// that decides may rest on it; what is proven is [Evidence].
type Said struct {
	// MediaType names the version of the bundle.
	MediaType string
	// Certificates are DER, the signer's first; none where a key signs.
	Certificates [][]byte
	// KeyHint is how the bundle calls the key that signed.
	KeyHint string
	Entries []SaidEntry
	// Timestamps are the tokens of timestamp authorities.
	Timestamps [][]byte
	// PayloadType and Payload are those of an attestation's envelope.
	PayloadType string
	Payload     []byte
	Signatures  int
	// Algorithm and Digest are what a plain signature says it signs.
	Algorithm string
	Digest    []byte
}

// SaidEntry is one entry of a transparency log, as the bundle carries it.
type SaidEntry struct {
	LogID      []byte
	LogIndex   int64
	Kind       string
	Version    string
	Integrated time.Time // zero where the entry names no time
	Checkpoint string
}

// IsAttestation reports whether the bundle carries an envelope, as opposed to
// a plain signature.
func (s Said) IsAttestation() bool { return s.PayloadType != "" }

// Read reads the form of a bundle within the limits that a verifier keeps, and
// verifies nothing.
func Read(raw []byte) (Said, error) {
	b, err := open(raw)
	if err != nil {
		return Said{}, err
	}
	if _, err := readEntries(b); err != nil {
		return Said{}, err
	}
	vm := b.GetVerificationMaterial()
	s := Said{MediaType: b.GetMediaType(), KeyHint: vm.GetPublicKey().GetHint(), Certificates: certificates(vm), Signatures: 1}
	for _, e := range vm.GetTlogEntries() {
		entry := SaidEntry{
			LogID: e.GetLogId().GetKeyId(), LogIndex: e.GetLogIndex(),
			Kind: e.GetKindVersion().GetKind(), Version: e.GetKindVersion().GetVersion(),
			Checkpoint: e.GetInclusionProof().GetCheckpoint().GetEnvelope(),
		}
		if t := e.GetIntegratedTime(); t > 0 {
			entry.Integrated = time.Unix(t, 0).UTC()
		}
		s.Entries = append(s.Entries, entry)
	}
	for _, t := range vm.GetTimestampVerificationData().GetRfc3161Timestamps() {
		s.Timestamps = append(s.Timestamps, t.GetSignedTimestamp())
	}
	if envelope := b.GetDsseEnvelope(); envelope != nil {
		s.PayloadType, s.Payload, s.Signatures = envelope.GetPayloadType(), slices.Clone(envelope.GetPayload()), len(envelope.GetSignatures())
	}
	if hash := b.GetMessageSignature().GetMessageDigest(); hash != nil {
		s.Algorithm, s.Digest = hash.GetAlgorithm().String(), hash.GetDigest()
	}
	return s, nil
}

func certificates(vm *protobundle.VerificationMaterial) [][]byte {
	if one := vm.GetCertificate(); one != nil {
		return [][]byte{one.GetRawBytes()}
	}
	var list [][]byte
	for _, c := range vm.GetX509CertificateChain().GetCertificates() {
		list = append(list, c.GetRawBytes())
	}
	return list
}
