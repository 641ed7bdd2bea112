package verify

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"slices"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// whyStamp says why a timestamp of a signature is invalid, if it is. It parses
// the token itself, and trusts nothing in it. Only the code TSAUntrusted says
// that no authority of the trust root can have made it.
func whyStamp(token, signature []byte, trusted root.TrustedMaterial, err error) error {
	if err == nil {
		return nil
	}
	name := func(code verdict.Code) error { return verdict.Wrap(code, "timestamp", err) }
	s, errRead := readStamp(token)
	if errRead != nil {
		return name(verdict.TimeInvalid)
	}
	near := false
	for _, authority := range trusted.TimestampingAuthorities() {
		tsa, ok := authority.(*root.SigstoreTimestampingAuthority)
		if !ok {
			continue
		}
		above := slices.DeleteFunc(append(slices.Clone(tsa.Intermediates), tsa.Root, tsa.Leaf), func(c *x509.Certificate) bool { return c == nil })
		always := *tsa
		always.ValidityPeriodStart, always.ValidityPeriodEnd = time.Time{}, time.Time{}
		if _, err := always.Verify(token, signature); err == nil {
			return name(verdict.TSAWindow)
		}
		if tsa.Leaf != nil && s.by(tsa.Leaf) {
			if !s.imprints(signature) {
				return name(verdict.TSAImprint)
			}
			if slices.ContainsFunc(above, func(c *x509.Certificate) bool { return !lives(c, s.at) }) {
				return name(verdict.TSAWindow)
			}
			return name(verdict.TimeInvalid)
		}
		near = near || slices.ContainsFunc(above, func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, s.issuer) })
	}
	switch {
	case !near:
		return name(verdict.TSAUntrusted)
	case !s.imprints(signature):
		return name(verdict.TSAImprint)
	}
	return name(verdict.TSACert)
}

// stamp is the unverified content of an RFC 3161 token.
type stamp struct {
	hash    asn1.ObjectIdentifier
	imprint []byte
	at      time.Time
	number  *big.Int
	issuer  []byte // of the certificate that its signature names
	serial  *big.Int
}

// by reports whether the token names a certificate as its signer's.
func (s stamp) by(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, s.issuer) && c.SerialNumber.Cmp(s.serial) == 0
}

func (s stamp) imprints(body []byte) bool {
	for id, h := range map[string]crypto.Hash{
		"2.16.840.1.101.3.4.2.1": crypto.SHA256, "2.16.840.1.101.3.4.2.2": crypto.SHA384, "2.16.840.1.101.3.4.2.3": crypto.SHA512,
	} {
		if s.hash.String() == id {
			sum := h.New()
			sum.Write(body)
			return bytes.Equal(sum.Sum(nil), s.imprint)
		}
	}
	return false
}

// The structures of RFC 3161 and RFC 5652, as far as they are parsed here.
type (
	wireResponse struct {
		Status asn1.RawValue
		Token  wireContent
	}
	wireContent struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"explicit,optional,tag:0"`
	}
	wireCertificates struct{ Raw asn1.RawContent }
	wireSigned       struct {
		Version      int
		Digests      []pkix.AlgorithmIdentifier `asn1:"set"`
		Content      wireContent
		Certificates wireCertificates `asn1:"optional,tag:0"`
		Revoked      wireCertificates `asn1:"optional,tag:1"`
		Signers      []wireSigner     `asn1:"set"`
	}
	wireSigner struct {
		Version int
		Name    struct {
			Issuer asn1.RawValue
			Serial *big.Int
		}
	}
	wireInfo struct {
		Version int
		Policy  asn1.ObjectIdentifier
		Imprint struct {
			Hash pkix.AlgorithmIdentifier
			Sum  []byte
		}
		Serial *big.Int
		Time   asn1.RawValue
	}
)

var errStamp = errors.New("not a timestamp in DER")

func readStamp(raw []byte) (stamp, error) {
	var response wireResponse
	var signed wireSigned
	var info wireInfo
	var body []byte
	if _, err := asn1.Unmarshal(raw, &response); err != nil {
		return stamp{}, err
	}
	if _, err := asn1.Unmarshal(response.Token.Content.Bytes, &signed); err != nil {
		return stamp{}, err
	}
	if _, err := asn1.Unmarshal(signed.Content.Content.Bytes, &body); err != nil {
		return stamp{}, err
	}
	if _, err := asn1.Unmarshal(body, &info); err != nil || len(signed.Signers) != 1 {
		return stamp{}, errors.Join(errStamp, err)
	}
	at, err := time.Parse("20060102150405Z0700", string(info.Time.Bytes))
	return stamp{
		hash: info.Imprint.Hash.Algorithm, imprint: info.Imprint.Sum, at: at, number: info.Serial,
		issuer: signed.Signers[0].Name.Issuer.FullBytes, serial: signed.Signers[0].Name.Serial,
	}, err
}
