package legacy

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The types of PEM blocks that are accepted.
const (
	pemCertificate = "CERTIFICATE"
	pemPublicKey   = "PUBLIC KEY"
)

const pemBegin = "-----BEGIN "

const whiteSpace = " \t\r\n"

// decodeBase64 accepts one spelling only: standard alphabet, padded, no unused
// bits. Line breaks are allowed.
func decodeBase64(text []byte) ([]byte, error) {
	return base64.StdEncoding.Strict().DecodeString(string(bytes.Trim(text, whiteSpace)))
}

func decodeSignature(text []byte) ([]byte, error) {
	if len(text) > MaxSignature {
		return nil, verdict.Refuse(verdict.Limit, "signature", "%d bytes, the limit is %d", len(text), MaxSignature)
	}
	if bytes.HasPrefix(bytes.Trim(text, whiteSpace), []byte(pemBegin)) {
		return nil, errSignaturePEM()
	}
	signature, err := decodeBase64(text)
	if err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "signature", err)
	}
	if len(signature) == 0 {
		return nil, verdict.Refuse(verdict.BundleParse, "signature", "the signature is empty")
	}
	if bytes.HasPrefix(signature, []byte(pemBegin)) {
		return nil, errSignaturePEM()
	}
	return signature, nil
}

func errSignaturePEM() error {
	return verdict.Refuse(verdict.BundleParse, "signature", "the file is PEM, like a certificate or a key; give the signature itself")
}

// decodeCertificates parses the signer's certificate and the rest of its chain.
// Anything else is refused: with a key in its place, the signature would have
// no identity.
func decodeCertificates(certificate, chain []byte) ([][]byte, error) {
	list, err := decodePEM(certificate)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, verdict.Refuse(verdict.CertMissing, "certificate", "the certificate is missing, but a signature by an identity was expected")
	}
	rest, err := decodePEM(chain)
	if err != nil {
		return nil, err
	}
	for _, der := range rest {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, verdict.Wrap(verdict.CertParse, "certificate chain", err)
		}
		if !bytes.Equal(c.RawIssuer, c.RawSubject) { // bundles contain no roots
			list = append(list, der)
		}
	}
	return list, nil
}

// decodePEM parses certificates in PEM or in base64 of PEM, and nothing else.
func decodePEM(text []byte) (list [][]byte, err error) {
	if len(text) > MaxCertificate {
		return nil, verdict.Refuse(verdict.Limit, "certificate", "%d bytes, the limit is %d", len(text), MaxCertificate)
	}
	blocks, err := decodeBlocks(text)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if b.Type != pemCertificate {
			return nil, verdict.Refuse(verdict.CertParse, "certificate", "it is a %q", b.Type)
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			return nil, verdict.Wrap(verdict.CertParse, "certificate", err)
		}
		list = append(list, b.Bytes)
	}
	return list, nil
}

func decodeBlocks(text []byte) (blocks []*pem.Block, err error) {
	text = bytes.Trim(text, whiteSpace)
	if len(text) > 0 && !bytes.HasPrefix(text, []byte(pemBegin)) {
		decoded, err := decodeBase64(text)
		if err != nil {
			return nil, verdict.Refuse(verdict.CertParse, "certificate", "the file is neither PEM nor base64 of PEM")
		}
		text = bytes.Trim(decoded, whiteSpace)
	}
	for len(text) > 0 {
		if !bytes.HasPrefix(text, []byte(pemBegin)) {
			return nil, verdict.Refuse(verdict.CertParse, "certificate", "the file contains more than PEM")
		}
		block, rest := pem.Decode(text)
		if block == nil || len(block.Headers) > 0 {
			return nil, verdict.Refuse(verdict.CertParse, "certificate", "the PEM is malformed")
		}
		blocks = append(blocks, block)
		text = bytes.Trim(rest, whiteSpace)
	}
	return blocks, nil
}

// noCertificate refuses a certificate where a key was expected. Cosign writes
// the public key in the same place; only the caller's key counts.
func noCertificate(text []byte) error {
	if len(text) > MaxCertificate {
		return verdict.Refuse(verdict.Limit, "public key", "%d bytes, the limit is %d", len(text), MaxCertificate)
	}
	blocks, err := decodeBlocks(text)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if b.Type != pemPublicKey {
			return verdict.Refuse(verdict.MaterialKind, "signature", "signed with a certificate, want the given key")
		}
	}
	return nil
}
