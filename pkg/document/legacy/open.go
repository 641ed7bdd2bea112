package legacy

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Open parses the output of [Material.Bundle] for a signature with a
// certificate and an entry, so that it can be written in the legacy forms.
func Open(bundle []byte) (Material, error) {
	refuse := func(why string) (Material, error) {
		return Material{}, verdict.Refuse(verdict.BundleParse, "bundle", "%s", why)
	}
	b, err := decodeBundle(bundle)
	if err != nil {
		return Material{}, err
	}
	vm := b.GetVerificationMaterial()
	if b.GetMediaType() != promised || len(vm.GetTlogEntries()) != 1 || len(vm.GetX509CertificateChain().GetCertificates()) != 1 {
		return refuse("the bundle was not made from a legacy form with a certificate and a log entry")
	}
	certificate := vm.GetX509CertificateChain().GetCertificates()[0].GetRawBytes()
	var m Material
	if envelope := b.GetDsseEnvelope(); envelope != nil {
		if len(envelope.GetSignatures()) != 1 || envelope.GetPayloadType() != intoto.PayloadType {
			return refuse("the envelope does not have exactly one signature of a statement")
		}
		m, err = NewAttestation(envelope.GetPayload(), envelope.GetSignatures()[0].GetSig(), certificate)
	} else {
		var signed digest.Digest
		if signed, err = digest.ParseHex(digest.SHA256, hex.EncodeToString(b.GetMessageSignature().GetMessageDigest().GetDigest())); err != nil {
			return Material{}, verdict.Wrap(verdict.BundleParse, "bundle", err)
		}
		m, err = New(signed, b.GetMessageSignature().GetSignature(), certificate)
	}
	if err != nil {
		return Material{}, err
	}
	e, err := entryOf(vm.GetTlogEntries()[0])
	if err != nil {
		return Material{}, err
	}
	return m.With(e)
}

func decodeBundle(raw []byte) (*protobundle.Bundle, error) {
	if len(raw) > MaxBundle {
		return nil, verdict.Refuse(verdict.Limit, "bundle", "%d bytes, the limit is %d", len(raw), MaxBundle)
	}
	var b protobundle.Bundle
	if err := protojson.Unmarshal(raw, &b); err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	return &b, nil
}

// Convert parses a bundle of any version that can be written in the legacy
// forms: signed with one certificate, with a promise of a log of version 1. It
// refuses other bundles with the reason. The bundle is parsed, not verified.
func Convert(bundle []byte) (Material, error) {
	b, err := decodeBundle(bundle)
	if err != nil {
		return Material{}, err
	}
	lacks := func(why string) (Material, error) {
		return Material{}, verdict.Refuse(verdict.BundleLacks, "bundle", "%s", why)
	}
	vm, envelope := b.GetVerificationMaterial(), b.GetDsseEnvelope()
	certificate := vm.GetCertificate().GetRawBytes()
	if chain := vm.GetX509CertificateChain().GetCertificates(); certificate == nil && len(chain) > 0 {
		certificate = chain[0].GetRawBytes()
	}
	switch {
	case envelope == nil:
		return lacks("the bundle signs bytes, not a statement, but the legacy form must contain the signed bytes")
	case len(envelope.GetSignatures()) != 1 || envelope.GetPayloadType() != intoto.PayloadType:
		return lacks("the envelope does not have exactly one signature of a statement")
	case certificate == nil:
		return lacks("the bundle is signed with a key, but the legacy form needs a certificate")
	}
	m, err := NewAttestation(envelope.GetPayload(), envelope.GetSignatures()[0].GetSig(), certificate)
	if err != nil {
		return Material{}, err
	}
	for _, w := range vm.GetTlogEntries() {
		if len(w.GetInclusionPromise().GetSignedEntryTimestamp()) == 0 {
			continue
		}
		e, err := entryOf(w)
		if err != nil {
			return Material{}, err
		}
		return m.With(e)
	}
	return lacks("the bundle has no inclusion promise, which older clients need and logs of version 2 do not give")
}

// entryOf is the inverse of [Entry.proto].
func entryOf(w *rekor.TransparencyLogEntry) (Entry, error) {
	e := Entry{
		body: w.GetCanonicalizedBody(), integrated: w.GetIntegratedTime(), index: w.GetLogIndex(),
		log: w.GetLogId().GetKeyId(), promise: w.GetInclusionPromise().GetSignedEntryTimestamp(),
	}
	if p := w.GetInclusionProof(); p != nil {
		e.proof = &proof{checkpoint: p.GetCheckpoint().GetEnvelope(), hashes: p.GetHashes(), index: p.GetLogIndex(), size: p.GetTreeSize(), root: p.GetRootHash()}
	}
	return e, e.readBody()
}

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
		chain := &common.X509CertificateChain{Certificates: slice.Map(m.chain, func(der []byte) *common.X509Certificate {
			return &common.X509Certificate{RawBytes: der}
		})}
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
