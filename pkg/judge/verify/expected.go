package verify

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"io"
	"slices"
	"strconv"
	"time"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// A log writes the entry of a signature in one canonical form, which can be
// computed from the bundle. An entry with exactly these bytes need not be
// parsed: it is for this artifact, this signature and this certificate. Almost
// all entries are. All others are parsed by the library.
//
// This, and the reader of certificate promises in sct.go, are the two shortcuts
// beside sigstore-go. [Rules.LibraryAlone] disables both, and tests compare the
// results: mutated bundles, fuzzing, the vectors and the client conformance
// suite. What each saves, in microseconds of CPU for one of 400 bundles, on two
// quiet cores of an AMD EPYC (make bench BENCH='-only bundles'):
//
//	                                 both on  no entries  no promises  both off  sigstore-go
//	Rekor v1, a certificate each         732   975 +33%     878 +20%  1062 +45%         1620
//	Rekor v1, one certificate            209   412 +97%     244 +17%   409 +96%         1550
//	Rekor v2, a certificate each        1128  1244 +10%    1374 +22%  1336 +18%         2190
//	Rekor v2, one certificate            642   732 +14%     670  +4%   701  +9%         2200

// expectedBody computes what a log writes for the bundle's signature, in the
// kind and version of an entry; nil where this package does not know it: for
// keys other than P-256, and for rare kinds. From the entry's own body it uses
// only the one digest that cannot be computed from a bundle.
func (m material) expectedBody(e *protorekor.TransparencyLogEntry) []byte {
	if m.leaf == nil {
		return nil
	}
	key, ok := m.leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil
	}
	kind := e.GetKindVersion()
	if kind.GetKind() == kindEnvelope {
		return m.expectedEnvelope(kind.GetVersion(), e.GetCanonicalizedBody())
	}
	if kind.GetKind() != "hashedrekord" {
		return nil
	}
	sum, signature, enveloped := m.signedSHA256()
	b := make([]byte, 0, len(e.GetCanonicalizedBody())+1)
	switch version := kind.GetVersion(); {
	case sum == nil:
		return nil
	case version == "0.0.1" && !enveloped:
		b = hex.AppendEncode(append(b, headV1...), sum)
		b = text(append(b, `"}},"signature":{"content":"`...), signature)
		b = text(append(b, `","publicKey":{"content":"`...), certificatePEM(m.leaf.Raw))
		return append(b, `"}}}}`...)
	case version == "0.0.2":
		b = text(append(b, headV2...), sum)
		b = text(append(b, `"},"signature":{"content":"`...), signature)
		b = text(append(b, `","verifier":{"keyDetails":"PKIX_ECDSA_P256_SHA_256","x509Certificate":{"rawBytes":"`...), m.leaf.Raw)
		return append(b, `"}}}}}}`...)
	}
	return nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// expectedEnvelope computes what a log of version 1 writes for the bundle's
// envelope. It contains a hash of the envelope in the form in which it was
// sent, which a bundle does not contain; so any digest is accepted there.
// Everything that binds the entry to this bundle is computed from the bundle.
func (m material) expectedEnvelope(version string, said []byte) []byte {
	envelope := m.entity.GetDsseEnvelope()
	if version != "0.0.1" || len(envelope.GetSignatures()) != 1 || len(envelope.GetPayload()) == 0 {
		return nil
	}
	sent, ok := bytes.CutPrefix(said, []byte(headEnvelope))
	if !ok || len(sent) < hex.EncodedLen(sha256.Size) || !isHex(sent[:hex.EncodedLen(sha256.Size)]) {
		return nil
	}
	payload := sha256.Sum256(envelope.GetPayload())
	b := make([]byte, 0, len(said)+1)
	b = append(append(b, headEnvelope...), sent[:hex.EncodedLen(sha256.Size)]...)
	b = hex.AppendEncode(append(b, `"},"payloadHash":{"algorithm":"sha256","value":"`...), payload[:])
	b = text(append(b, `"},"signatures":[{"signature":"`...), envelope.GetSignatures()[0].GetSig())
	b = text(append(b, `","verifier":"`...), certificatePEM(m.leaf.Raw))
	return append(b, `"}]}}`...)
}

// isHex reports whether text is hexadecimal as logs write it.
func isHex(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
}

// kindEnvelope is the kind of entries for an envelope.
const kindEnvelope = "dsse"

// The prefixes of entry bodies.
const (
	headV1       = `{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{"data":{"hash":{"algorithm":"sha256","value":"`
	headV2       = `{"apiVersion":"0.0.2","kind":"hashedrekord","spec":{"hashedRekordV002":{"data":{"algorithm":"SHA2_256","digest":"`
	headEnvelope = `{"apiVersion":"0.0.1","kind":"dsse","spec":{"envelopeHash":{"algorithm":"sha256","value":"`
)

// text appends bytes as base64.
func text(to, b []byte) []byte { return base64.StdEncoding.AppendEncode(to, b) }

// signedSHA256 is the SHA-256 of what the bundle signs, and the signature: the
// digest of the artifact, or of its envelope. nil: another algorithm.
func (m material) signedSHA256() (sum, signature []byte, enveloped bool) {
	if message := m.entity.GetMessageSignature(); message != nil {
		hint := message.GetMessageDigest()
		if hint.GetAlgorithm() != protocommon.HashAlgorithm_SHA2_256 || len(hint.GetDigest()) != sha256.Size {
			return nil, nil, false
		}
		return hint.GetDigest(), message.GetSignature(), false
	}
	envelope := m.entity.GetDsseEnvelope()
	if len(envelope.GetSignatures()) != 1 || len(envelope.GetPayload()) == 0 {
		return nil, nil, true // refused by the library
	}
	h := sha256.New()
	_, _ = io.Copy(h, pae(envelope)) // writing to memory cannot fail
	return h.Sum(nil), envelope.GetSignatures()[0].GetSig(), true
}

// isExpected reports whether every byte of an entry's body is what its log must
// have written, and the entry has all required fields.
func (m material) isExpected(e *protorekor.TransparencyLogEntry) bool {
	if e.GetLogId().GetKeyId() == nil || e.GetLogIndex() < 0 {
		return false
	}
	if p := e.GetInclusionProof(); p != nil && p.GetCheckpoint().GetEnvelope() == "" {
		return false
	}
	body := m.expectedBody(e)
	return body != nil && bytes.Equal(body, e.GetCanonicalizedBody())
}

// allExpected reports whether no entry needs to be parsed.
func (m material) allExpected() bool {
	entries := m.entity.GetVerificationMaterial().GetTlogEntries()
	return len(entries) > 0 && !slices.ContainsFunc(entries, func(e *protorekor.TransparencyLogEntry) bool { return !m.isExpected(e) })
}

// recorded proves that enough distinct logs include this signature: by expected
// bodies or, where that fails, by parsing the entries.
func recorded(m *material, trusted root.TrustedMaterial, threshold int, seen *memory) (logged, error) {
	if slices.ContainsFunc(m.entity.GetVerificationMaterial().GetTlogEntries(), isStatement) {
		return recordedStatement(*m, trusted, threshold, seen)
	}
	if l, ok := asExpected(*m, threshold, seen); ok {
		return l, nil
	}
	if m.unread {
		var err error
		if m.entries, err = readEntries(m.entity); err != nil {
			return logged{}, err
		}
		m.unread = false
	}
	return included(*m, trusted, threshold)
}

// asExpected proves that distinct logs include entries with expected bodies,
// without parsing them. If it returns false, [included] decides.
func asExpected(m material, threshold int, seen *memory) (logged, bool) {
	if !m.unread {
		return logged{}, false
	}
	out := logged{index: -1}
	known := map[*logKey]bool{}
	for _, e := range m.entity.GetVerificationMaterial().GetTlogEntries() {
		w := seen.logs[hex.EncodeToString(e.GetLogId().GetKeyId())]
		if w == nil || known[w] {
			return logged{}, false
		}
		known[w] = true
		if out.by = append(out.by, w.log); out.index < 0 {
			out.index = e.GetLogIndex()
		}
		switch e.GetKindVersion().GetVersion() {
		case "0.0.1":
			at := time.Unix(e.GetIntegratedTime(), 0)
			if !lives(m.leaf, at) || !w.promises(e, at) || e.GetInclusionProof() != nil && !w.includesV1(e) {
				return logged{}, false
			}
			out.times = append(out.times, at)
		case "0.0.2":
			if e.GetIntegratedTime() != 0 || len(e.GetInclusionPromise().GetSignedEntryTimestamp()) != 0 || !w.includesV2(e) {
				return logged{}, false
			}
		default:
			return logged{}, false
		}
	}
	return out, len(out.by) >= threshold
}

// promises reports whether a log of version 1 signed that it will include the
// entry, at this time, with a key that the trust root trusts at this time.
func (w *logKey) promises(e *protorekor.TransparencyLogEntry, at time.Time) bool {
	key, ok := w.log.PublicKey.(*ecdsa.PublicKey)
	const exact = 1 << 53 // larger numbers are rounded in canonical JSON
	if !ok || at.Unix() <= 0 || at.Unix() >= exact || e.GetLogIndex() >= exact || w.log.ValidityPeriodStart.IsZero() || !believedAt(w.log, at) {
		return false
	}
	const rest = 256 // size in bytes, with a margin
	b := make([]byte, 0, base64.StdEncoding.EncodedLen(len(e.GetCanonicalizedBody()))+rest)
	b = text(append(b, `{"body":"`...), e.GetCanonicalizedBody())
	b = strconv.AppendInt(append(b, `","integratedTime":`...), e.GetIntegratedTime(), 10)
	b = hex.AppendEncode(append(b, `,"logID":"`...), e.GetLogId().GetKeyId())
	b = strconv.AppendInt(append(b, `","logIndex":`...), e.GetLogIndex(), 10)
	sum := sha256.Sum256(append(b, '}'))
	return ecdsa.VerifyASN1(key, sum[:], e.GetInclusionPromise().GetSignedEntryTimestamp())
}

// includesV1 reports whether a tree that the log signed includes the entry.
func (w *logKey) includesV1(e *protorekor.TransparencyLogEntry) bool {
	p := e.GetInclusionProof()
	tree, ok := w.checkpoint(p.GetCheckpoint().GetEnvelope(), true)
	return ok && bytes.Equal(tree.root, p.GetRootHash()) && includes(tree.root, p.GetTreeSize(), p.GetLogIndex(), e)
}

// includesV2 does the same for a log of version 2, which numbers its entries
// from the start of its only tree.
func (w *logKey) includesV2(e *protorekor.TransparencyLogEntry) bool {
	tree, ok := w.checkpoint(e.GetInclusionProof().GetCheckpoint().GetEnvelope(), false)
	return ok && includes(tree.root, tree.size, e.GetLogIndex(), e)
}

func includes(root []byte, size, index int64, e *protorekor.TransparencyLogEntry) bool {
	return size >= 0 && index >= 0 && proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(index), uint64(size),
		rfc6962.DefaultHasher.HashLeaf(e.GetCanonicalizedBody()), e.GetInclusionProof().GetHashes(), root) == nil
}
