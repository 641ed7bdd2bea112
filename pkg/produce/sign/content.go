package sign

import (
	"crypto/sha256"
	"encoding/hex"
	"io"

	bundles "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

type content struct {
	kind string // for people and the journal
	sum  []byte // the SHA-256 that is signed
	// put adds content and signature to a bundle.
	put func(b *bundles.Bundle, signature []byte)
	// prove verifies the bundle, as its consumers will.
	prove func(v prover, raw []byte) (verify.Evidence, error)
	// legacy makes a signature in a form that predates bundles; nil for a
	// bundle.
	legacy func(made) (legacy.Material, error)
}

// prover verifies signatures: by certificates, or by one key.
type prover interface {
	Attestation(raw []byte) (verify.Evidence, error)
	Blob(raw []byte, artifact digest.Set) (verify.Evidence, error)
}

// name identifies the content in the journal, for a role.
func (c content) name(as string) string {
	return as + " " + c.kind + " sha256:" + hex.EncodeToString(c.sum)
}

// statement is a statement in its DSSE envelope.
func statement(st intoto.Statement) content {
	h := sha256.New()
	_, _ = io.Copy(h, st.PAE()) // both are in memory
	return content{
		kind: "statement", sum: h.Sum(nil),
		put: func(b *bundles.Bundle, signature []byte) {
			b.Content = &bundles.Bundle_DsseEnvelope{DsseEnvelope: &dsse.Envelope{
				Payload: st.Raw(), PayloadType: intoto.PayloadType, Signatures: []*dsse.Signature{{Sig: signature}},
			}}
		},
		prove: func(v prover, raw []byte) (verify.Evidence, error) { return v.Attestation(raw) },
	}
}

// blob is bytes known by their digests, so a file of any size is signed
// without being read again.
func blob(bytes digest.Set) (content, error) {
	if bytes.SHA256.IsZero() {
		return content{}, verdict.Refuse(verdict.NoArtifact, "signature", "no SHA-256 digest to sign")
	}
	sum := bytes.SHA256.Bytes()
	return content{
		kind: "blob", sum: sum,
		put: func(b *bundles.Bundle, signature []byte) {
			b.Content = &bundles.Bundle_MessageSignature{MessageSignature: &common.MessageSignature{
				MessageDigest: &common.HashOutput{Algorithm: common.HashAlgorithm_SHA2_256, Digest: sum}, Signature: signature,
			}}
		},
		prove: func(v prover, raw []byte) (verify.Evidence, error) { return v.Blob(raw, bytes) },
	}, nil
}
