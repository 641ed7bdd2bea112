// Package legacy reads signatures in the forms that came before the Sigstore
// bundle, and writes each as a bundle of version 0.1 or 0.2; and it writes new
// ones in those forms, for clients that know no other.
//
// The forms are a file's .sig and .cert; cosign's legacy bundle; and the layers
// of the tags sha256-<digest>.sig and .att in a registry. Each needs the caller
// to say what was signed and what kind of signer is asked for; nothing is
// guessed from what is found:
//
//	m, err := legacy.ParseFiles(legacy.Certificate, artifact, signature, certificate)
//	if !m.Logged() {
//		m, err = m.With(entry) // asked from a log: see pkg/backend/rekorv1
//	}
//	bundle, err := m.Bundle()
//	e, err := verifier.Blob(bundle, digests)
//
// Who signs in these forms asks a log to take in a [Material.Proposal], adds the
// entry, has the bundle verified, and takes it apart again:
//
//	m, err := legacy.Open(bundle)
//	signature, certificate := m.Files() // FILE.sig and FILE.cert
//
// Nothing here is believed: a [Material] is parsed, not verified, and proves
// nothing until pkg/judge/verify has proven the bundle. Certificates that came along
// are copied, not trusted; chains are those of the trust root.
//
// Forms: cosign's SIGNATURE_SPEC.md and BUNDLE_SPEC.md, and the REST API of
// Rekor v1. Entries are of the kinds hashedrekord 0.0.1, dsse 0.0.1 and intoto
// 0.0.2. A blob is signed by its SHA-256 digest, as these forms always did.
package legacy

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits that hold before anything is decoded.
const (
	MaxSignature   = 64 << 10
	MaxCertificate = 256 << 10
	MaxBundle      = 8 << 20
)

// Signer is the kind of signer that the caller asks for. The zero Signer is
// none.
type Signer uint8

// The kinds of signer.
const (
	Certificate Signer = iota + 1 // an identity, named by a certificate
	Key                           // a long-lived key, which the caller has
)

// Material is a signature in a legacy form, parsed and not yet verified.
type Material struct {
	signed    digest.Digest // the artifact, or the payload of the envelope
	signature []byte
	envelope  *intoto.Envelope // nil for a blob
	chain     [][]byte         // DER, the signer's first; none where a key signs
	entry     *Entry
	timestamp []byte
	payload   []byte // what a layer of a tag .sig consists of
}

// ParseFiles reads a detached signature of an artifact and its certificate,
// each as cosign writes it: the signature in base64, the certificate in PEM or
// in base64 of PEM. With a [Key] there is no certificate. Neither says when:
// that is for a log entry. See [Material.With].
func ParseFiles(by Signer, artifact digest.Digest, signature, certificate []byte) (Material, error) {
	return parse(by, artifact, parts{signature: signature, certificate: certificate})
}

// parts is what the legacy forms consist of, as text.
type parts struct {
	signature, certificate, chain []byte
	envelope                      *intoto.Envelope // instead of a signature
	entry                         *Entry
	timestamp                     []byte
}

func parse(by Signer, signed digest.Digest, p parts) (m Material, err error) {
	if signed.Algorithm() != digest.SHA256 {
		return Material{}, verdict.Refuse(verdict.NoArtifact, "signature", "no SHA-256 digest of what was signed was given")
	}
	m = Material{signed: signed, envelope: p.envelope, entry: p.entry, timestamp: p.timestamp}
	if p.envelope != nil {
		m.signature = p.envelope.Signatures[0].Sig
	} else if m.signature, err = decodeSignature(p.signature); err != nil {
		return Material{}, err
	}
	switch by {
	case Certificate:
		m.chain, err = decodeCertificates(p.certificate, p.chain)
	case Key:
		err = noCertificate(p.certificate)
	default:
		err = verdict.Refuse(verdict.Usage, "signature", "neither an identity nor a key was asked for")
	}
	if err != nil {
		return Material{}, err
	}
	return m, nil
}

// IsZero reports whether m was never parsed.
func (m Material) IsZero() bool { return m.signed.IsZero() }

// IsAttestation reports whether a statement was signed, as opposed to a blob.
func (m Material) IsAttestation() bool { return m.envelope != nil }

// Signed is the digest of what was signed: a blob, or an attestation's payload.
func (m Material) Signed() digest.Digest { return m.signed }

// Payload is what was signed about an image, as [ParseLayer] read it.
func (m Material) Payload() []byte { return m.payload }

// Logged reports whether a log entry came along or was added.
func (m Material) Logged() bool { return m.entry != nil }

// Name names the signature by all of its parts except the log entry: what was
// signed, the signature and the certificate.
func (m Material) Name() digest.Digest {
	var all []byte
	for _, part := range [][]byte{m.signed.Bytes(), m.signature, m.leaf()} {
		all = binary.BigEndian.AppendUint64(all, uint64(len(part)))
		all = append(all, part...)
	}
	return digest.Of(digest.SHA256, all)
}

func (m Material) leaf() []byte {
	if len(m.chain) == 0 {
		return nil
	}
	return m.chain[0]
}

// With adds a log entry that did not come along. It refuses an entry that is
// of another artifact, another signature or another certificate: whoever
// answers for a log says what it likes. That the log holds the entry is not
// proven by this.
func (m Material) With(e Entry) (Material, error) {
	if err := m.bind(e); err != nil {
		return Material{}, err
	}
	m.entry = &e
	return m, nil
}

// EntryName is the name of the one log entry that says exactly this: of this
// blob, this signature and this certificate. It is the hash by which a log
// knows the entry, so that no other can be found by it. Attestations and keys
// have none, for what a log writes of them is not known here.
func (m Material) EntryName() string {
	if m.IsAttestation() || m.leaf() == nil {
		return ""
	}
	return leafHash(recordOf(m))
}

// leafHash is the hash of an entry as a leaf of the log (RFC 6962, 2.1).
func leafHash(body []byte) string {
	sum := sha256.Sum256(append([]byte{0}, body...))
	return digestHex(sum[:])
}
