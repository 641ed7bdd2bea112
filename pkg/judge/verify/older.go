package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Until 2023 cosign logged attestations as entries of kind intoto 0.0.1. Such an
// entry has no signature, but the hash of the envelope's text, which is the layer
// of the image's tag, and the signer's certificate or key. Cosign accepts the
// layer by that hash; sigstore-go does not know the kind. Here the whole body
// must be what the log wrote for this envelope in cosign's spelling, which
// contains the signature. No client wrote a Sigstore bundle with such an entry,
// and no verifier reads one: [current] refuses it.

// isStatement reports whether an entry is of that kind.
func isStatement(e *protorekor.TransparencyLogEntry) bool {
	return e.GetKindVersion().GetKind() == "intoto" && e.GetKindVersion().GetVersion() == "0.0.1"
}

// current refuses entries of that kind outside of legacy tags.
func current(prove func(material) (Evidence, error)) func(material) (Evidence, error) {
	return func(m material) (Evidence, error) {
		if slices.ContainsFunc(m.entity.GetVerificationMaterial().GetTlogEntries(), isStatement) {
			return Evidence{}, verdict.Refuse(verdict.MaterialKind, "log entry", "kind intoto 0.0.1 counts only in the legacy tag of an image, not in a bundle").
				Advise("ask the publisher for a bundle with an entry of kind dsse, or verify the image that the attestation is attached to")
		}
		return prove(m)
	}
}

// expectedStatement computes the body that a log writes for the envelope and its
// signer, from which it takes only whether there is a hash of the payload: the
// oldest entries have none.
func (m material) expectedStatement(trusted root.TrustedMaterial, said []byte) []byte {
	envelope := m.entity.GetDsseEnvelope()
	signer := pem.Block{Type: "PUBLIC KEY"}
	if m.leaf != nil {
		signer = pem.Block{Type: "CERTIFICATE", Bytes: m.leaf.Raw}
	} else if key, is := trusted.(keyMaterial); is {
		signer.Bytes, _ = x509.MarshalPKIXPublicKey(key.public) // it was encoded before, for its digest
	}
	if len(envelope.GetSignatures()) != 1 || len(signer.Bytes) == 0 {
		return nil
	}
	sent := sha256.Sum256(fmt.Appendf(nil, `{"payloadType":%q,"payload":"%s","signatures":[{"keyid":"","sig":"%s"}]}`, envelope.GetPayloadType(),
		base64.StdEncoding.EncodeToString(envelope.GetPayload()), base64.StdEncoding.EncodeToString(envelope.GetSignatures()[0].GetSig())))
	b := hex.AppendEncode([]byte(`{"apiVersion":"0.0.1","kind":"intoto","spec":{"content":{"hash":{"algorithm":"sha256","value":"`), sent[:])
	if bytes.Contains(said, []byte(`"payloadHash"`)) {
		payload := sha256.Sum256(envelope.GetPayload())
		b = hex.AppendEncode(append(b, `"},"payloadHash":{"algorithm":"sha256","value":"`...), payload[:])
	}
	return append(text(append(b, `"}},"publicKey":"`...), pem.EncodeToMemory(&signer)), `"}}`...)
}

// recordedStatement proves that a log of version 1 includes the envelope, by its
// promise and, if there is one, its proof.
func recordedStatement(m material, trusted root.TrustedMaterial, threshold int, seen *memory) (logged, error) {
	entries := m.entity.GetVerificationMaterial().GetTlogEntries()
	e := entries[0]
	want := m.expectedStatement(trusted, e.GetCanonicalizedBody())
	w, at := seen.logs[hex.EncodeToString(e.GetLogId().GetKeyId())], time.Unix(e.GetIntegratedTime(), 0)
	refuse := func(code verdict.Code, why string) (logged, error) {
		return logged{}, verdict.Refuse(code, "log entry", "entry of kind intoto 0.0.1: %s", why)
	}
	switch {
	case len(entries) > 1 || threshold > 1:
		return refuse(verdict.Threshold, "a bundle has only one, and no other entry beside it")
	case w == nil:
		return refuse(verdict.LogUnknown, "the trust root does not name its log")
	case want == nil || !bytes.Equal(want, e.GetCanonicalizedBody()):
		return refuse(verdict.LogEntryUnbound, "it is for another envelope, certificate or key than the bundle's")
	case !believedAt(w.log, at):
		return logged{}, outOfBelief(w.log, at)
	case !w.promises(e, at):
		return refuse(verdict.LogPromise, "the log did not sign its promise")
	case e.GetInclusionProof() != nil && !w.includesV1(e):
		return refuse(verdict.LogProof, "the log's tree does not include it")
	case m.leaf != nil && !lives(m.leaf, at):
		return logged{}, outOfLife(m.leaf, at)
	}
	return logged{index: e.GetLogIndex(), times: []time.Time{at}, by: []*root.TransparencyLog{w.log}}, nil
}
