// Package legacy reads signatures in the forms that are older than the Sigstore
// bundle and converts each to a bundle of version 0.1 or 0.2. It also writes
// new signatures in those forms, for clients that know no other.
//
// The forms are: .sig and .cert beside a file; cosign's legacy bundle; and the
// layers of the tags sha256-<digest>.sig and .att in a registry. For each, the
// caller says what was signed and which kind of signer is expected; nothing is
// guessed from the contents:
//
//	m, err := legacy.ParseFiles(legacy.Certificate, artifact, signature, certificate)
//	if !m.Logged() {
//		m, err = m.With(entry) // asked from a log: see pkg/backend/rekorv1
//	}
//	bundle, err := m.Bundle()
//	e, err := verifier.Blob(bundle, digests)
//
// To sign in these forms, send a [Material.Proposal] to a log, add the entry,
// verify the bundle, and take it apart again:
//
//	m, err := legacy.Open(bundle)
//	signature, certificate := m.Files() // FILE.sig and FILE.cert
//
// Nothing here is verified: a [Material] is parsed, and proves nothing until
// pkg/judge/verify has verified the bundle. Certificates in the files are
// copied, not trusted; chains come from the trust root.
//
// Forms: cosign's SIGNATURE_SPEC.md and BUNDLE_SPEC.md, and the REST API of
// Rekor v1. Entries are of the kinds hashedrekord 0.0.1, dsse 0.0.1, intoto
// 0.0.1 and 0.0.2. A blob is signed by its SHA-256 digest, as always in these forms.
//
// Other projects should not import this package: it changes without notice.
package legacy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits that are checked before anything is decoded.
const (
	MaxSignature   = 64 << 10
	MaxCertificate = 256 << 10
	MaxBundle      = 8 << 20
)

// Signer is the kind of signer that the caller expects. The zero Signer is
// invalid.
type Signer uint8

// The kinds of signer.
const (
	Certificate Signer = iota + 1 // an identity, named by a certificate
	Key                           // a long-lived key, which the caller has
)

// Material is a signature in a legacy form, parsed and not yet verified.
type Material struct {
	signed    digest.Digest // digest of the artifact, or of the payload of the envelope
	signature []byte
	envelope  *intoto.Envelope // nil for a blob
	chain     [][]byte         // DER, the signer's first; none for a key
	entry     *Entry
	timestamp []byte
	payload   []byte // the layer of a tag .sig
}

// ParseFiles parses a detached signature of an artifact and its certificate, as
// cosign writes them: the signature in base64, the certificate in PEM or in
// base64 of PEM. With a [Key] there is no certificate. Neither contains the
// time, which needs a log entry: see [Material.With].
func ParseFiles(by Signer, artifact digest.Digest, signature, certificate []byte) (Material, error) {
	return parse(by, artifact, parts{signature: signature, certificate: certificate})
}

// parts are the texts that make up a legacy signature.
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
		err = verdict.Refuse(verdict.Usage, "signature", "the kind of signer is not set: want an identity or a key")
	}
	if err != nil {
		return Material{}, err
	}
	return m, nil
}

// IsZero reports whether m is the zero Material.
func (m Material) IsZero() bool { return m.signed.IsZero() }

// IsAttestation reports whether a statement was signed, and not a blob.
func (m Material) IsAttestation() bool { return m.envelope != nil }

// Signed is the digest of what was signed: a blob, or an attestation's payload.
func (m Material) Signed() digest.Digest { return m.signed }

// Payload is what was signed about an image, as [ParseLayer] read it.
func (m Material) Payload() []byte { return m.payload }

// Logged reports whether the material has a log entry.
func (m Material) Logged() bool { return m.entry != nil }

// Name identifies the signature by all of its parts except the log entry: what
// was signed, the signature and the certificate.
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

// With adds a log entry. It refuses an entry for another artifact, another
// signature or another certificate, because the answer of a log server is
// untrusted. This does not prove that the log includes the entry.
func (m Material) With(e Entry) (Material, error) {
	if err := m.bind(e); err != nil {
		return Material{}, err
	}
	m.entry = &e
	return m, nil
}

// EntryName is the name of the only log entry for this blob, this signature and
// this certificate. It is the hash under which a log stores the entry, so it
// cannot find another. Attestations and keys have no EntryName, because what a
// log writes for them is not known here.
func (m Material) EntryName() string {
	if m.IsAttestation() || m.leaf() == nil {
		return ""
	}
	return leafHash(recordOf(m))
}

// leafHash is the hash of an entry as a leaf of the log (RFC 6962, 2.1).
func leafHash(body []byte) string {
	sum := sha256.Sum256(append([]byte{0}, body...))
	return hex.EncodeToString(sum[:])
}

// Check verifies the signature with the key in its own certificate, before any
// log is asked. It refuses what can never be accepted; passing proves nothing,
// because neither the identity nor the time of the certificate is checked. For
// a signature by a long-lived key use [Material.CheckKey].
func (m Material) Check() error {
	if m.leaf() == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(m.leaf())
	if err != nil {
		return verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	return m.heldBy(certificate.PublicKey, "the key in its certificate")
}

// CheckKey does the same with a key that the caller has.
func (m Material) CheckKey(public crypto.PublicKey) error {
	return m.heldBy(public, "the key that was given")
}

// heldBy refuses a signature that was not made with a key. Where the digest is
// not enough to decide, the verifier does.
func (m Material) heldBy(public crypto.PublicKey, whose string) error {
	sum, holds := m.digestSigned(), true
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		holds = ecdsa.VerifyASN1(key, sum, m.signature)
	case *rsa.PublicKey:
		holds = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum, m.signature) == nil ||
			rsa.VerifyPSS(key, crypto.SHA256, sum, m.signature, nil) == nil
	}
	if !holds {
		return verdict.Refuse(verdict.SignatureBad, "signature", "the signature of %s does not match %s: one of the three belongs to something else", m.signed, whose)
	}
	return nil
}

// digestSigned is the SHA-256 of what the key signed: the blob, or DSSE's
// encoding of the payload.
func (m Material) digestSigned() []byte {
	if m.envelope == nil {
		return m.signed.Bytes()
	}
	sum := sha256.Sum256(m.envelope.PAE())
	return sum[:]
}
