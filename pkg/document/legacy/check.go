package legacy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
