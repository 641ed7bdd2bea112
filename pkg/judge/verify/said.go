package verify

import (
	"math/big"
	"slices"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Said is the unverified content of a bundle, for display: no signature, proof
// or certificate was checked. No decision may depend on it; verified content is
// in [Evidence].
type Said struct {
	// MediaType names the version of the bundle.
	MediaType string
	// Certificates are DER, the signer's first; none for a key.
	Certificates [][]byte
	// KeyHint is the bundle's name for the key that signed.
	KeyHint string
	Entries []SaidEntry
	// Timestamps are the tokens of timestamp authorities.
	Timestamps [][]byte
	// PayloadType and Payload are those of an attestation's envelope.
	PayloadType string
	Payload     []byte
	Signatures  int
	// Algorithm and Digest are what a plain signature claims to sign.
	Algorithm string
	Digest    []byte
}

// SaidEntry is one transparency log entry in the bundle, unverified.
type SaidEntry struct {
	LogID      []byte
	LogIndex   int64
	Kind       string
	Version    string
	Integrated time.Time // zero if the entry names no time
	Checkpoint string
}

// IsAttestation reports whether the bundle contains an envelope and not a plain
// signature.
func (s Said) IsAttestation() bool { return s.PayloadType != "" }

// Read parses a bundle within the limits of a verifier, and verifies nothing.
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
	s.Timestamps = slice.Map(vm.GetTimestampVerificationData().GetRfc3161Timestamps(), (*protocommon.RFC3161SignedTimestamp).GetSignedTimestamp)
	if envelope := b.GetDsseEnvelope(); envelope != nil {
		s.PayloadType, s.Payload, s.Signatures = envelope.GetPayloadType(), slices.Clone(envelope.GetPayload()), len(envelope.GetSignatures())
	}
	if hash := b.GetMessageSignature().GetMessageDigest(); hash != nil {
		s.Algorithm, s.Digest = hash.GetAlgorithm().String(), hash.GetDigest()
	}
	return s, nil
}

// Timestamp is the time and the serial number in one of the timestamps, unverified.
func (s Said) Timestamp(i int) (at time.Time, serial *big.Int, err error) {
	token, err := readStamp(s.Timestamps[i])
	return token.at, token.number, err
}

func certificates(vm *protobundle.VerificationMaterial) [][]byte {
	if one := vm.GetCertificate(); one != nil {
		return [][]byte{one.GetRawBytes()}
	}
	return slice.Map(vm.GetX509CertificateChain().GetCertificates(), (*protocommon.X509Certificate).GetRawBytes)
}
