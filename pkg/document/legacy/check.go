package legacy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Check holds the signature against the key in its own certificate, before
// anybody is asked about it. It refuses what can never be accepted; passing
// proves nothing, for whose certificate it is and when it signed is not looked
// at. A signature by a long-lived key is for [Material.CheckKey].
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

// heldBy refuses a signature that is not by a key. Where a digest is not enough
// to tell, it is left to the verifier.
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
		return verdict.Refuse(verdict.SignatureBad, "signature", "it is not one of %s by %s: one of the three is another's", m.signed, whose)
	}
	return nil
}

// digestSigned is the SHA-256 of what the key signed: the blob, or DSSE's
// encoding of the payload.
func (m Material) digestSigned() []byte {
	if m.envelope == nil {
		return m.signed.Bytes()
	}
	h := sha256.New()
	fmt.Fprintf(h, "DSSEv1 %d %s %d ", len(m.envelope.PayloadType), m.envelope.PayloadType, len(m.envelope.Payload))
	h.Write(m.envelope.Payload)
	return h.Sum(nil)
}
