package legacy

import (
	"bytes"
	"encoding/json"
	"fmt"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The versions that are written: 0.1 for an entry with a promise, 0.2 for one
// with a proof. An entry with both is written as 0.1, where the promise must be
// valid; the verifier also checks the proof.
const (
	promised = "application/vnd.dev.sigstore.bundle+json;version=0.1"
	proven   = "application/vnd.dev.sigstore.bundle+json;version=0.2"
)

// Bundle writes the material as a Sigstore bundle. The same material gives the
// same bytes.
func (m Material) Bundle() ([]byte, error) {
	if m.IsZero() {
		return nil, verdict.Refuse(verdict.NoArtifact, "signature", "no signature was given")
	}
	b := &protobundle.Bundle{MediaType: promised, VerificationMaterial: m.verificationMaterial()}
	if m.entry != nil && len(m.entry.promise) == 0 {
		b.MediaType = proven
	}
	if m.envelope != nil {
		b.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			PayloadType: m.envelope.PayloadType, Payload: m.envelope.Payload,
			Signatures: []*protodsse.Signature{{Sig: m.signature}},
		}}
	} else {
		b.Content = &protobundle.Bundle_MessageSignature{MessageSignature: &common.MessageSignature{
			MessageDigest: &common.HashOutput{Algorithm: common.HashAlgorithm_SHA2_256, Digest: m.signed.Bytes()},
			Signature:     m.signature,
		}}
	}
	raw, err := protojson.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encoding bundle: %w", err)
	}
	var out bytes.Buffer // protojson varies its white space from program to program
	if err := json.Compact(&out, raw); err != nil {
		return nil, fmt.Errorf("encoding bundle: %w", err)
	}
	return out.Bytes(), nil
}

func (m Material) verificationMaterial() *protobundle.VerificationMaterial {
	vm := &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &common.PublicKeyIdentifier{}}}
	if len(m.chain) > 0 {
		chain := &common.X509CertificateChain{}
		for _, der := range m.chain {
			chain.Certificates = append(chain.Certificates, &common.X509Certificate{RawBytes: der})
		}
		vm.Content = &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: chain}
	}
	if m.entry != nil {
		vm.TlogEntries = []*rekor.TransparencyLogEntry{m.entry.proto()}
	}
	if len(m.timestamp) > 0 {
		vm.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*common.RFC3161SignedTimestamp{{SignedTimestamp: m.timestamp}},
		}
	}
	return vm
}

func (e Entry) proto() *rekor.TransparencyLogEntry {
	out := &rekor.TransparencyLogEntry{
		LogIndex: e.index, LogId: &common.LogId{KeyId: e.log},
		KindVersion:    &rekor.KindVersion{Kind: e.kind, Version: e.version},
		IntegratedTime: e.integrated, CanonicalizedBody: e.body,
	}
	if len(e.promise) > 0 {
		out.InclusionPromise = &rekor.InclusionPromise{SignedEntryTimestamp: e.promise}
	}
	if p := e.proof; p != nil {
		out.InclusionProof = &rekor.InclusionProof{
			LogIndex: p.index, RootHash: p.root, TreeSize: p.size, Hashes: p.hashes,
			Checkpoint: &rekor.Checkpoint{Envelope: p.checkpoint},
		}
	}
	return out
}
