package verify

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"slices"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"
)

// stampers are the timestamp authorities of a trust root, each with a cache of
// their proven signers.
func stampers(material root.TrustedMaterial) (list []root.TimestampingAuthority) {
	for _, authority := range material.TimestampingAuthorities() {
		if a, ok := authority.(*root.SigstoreTimestampingAuthority); ok {
			authority = &stamper{SigstoreTimestampingAuthority: a}
		}
		list = append(list, authority)
	}
	return list
}

// stamper is a timestamp authority with its proven signers and how long each is
// valid. The cache key is all certificates in a timestamp and the one of them
// that signed.
type stamper struct {
	*root.SigstoreTimestampingAuthority
	proven memo[span]
}

// Verify verifies a timestamp of a signature. Every refusal comes from the
// library.
func (s *stamper) Verify(token, signature []byte) (*root.Timestamp, error) {
	if t, ok := s.again(token, signature); ok {
		return t, nil
	}
	t, err := s.SigstoreTimestampingAuthority.Verify(token, signature)
	if err == nil {
		s.remember(token)
	}
	return t, err
}

// again verifies a timestamp by a signer that was proven before: the token is
// well formed, signed by exactly that signer at a time when all certificates
// are valid, and for this very signature. If it returns false, the library
// decides.
func (s *stamper) again(token, signature []byte) (*root.Timestamp, bool) {
	if s.proven.isEmpty() {
		return nil, false
	}
	said, err := timestamp.ParseResponse(token)
	if err != nil || !strongHash(said.HashAlgorithm) {
		return nil, false
	}
	message, key, ok := s.signer(said)
	if !ok {
		return nil, false
	}
	proven, ok := s.proven.find(key)
	if !ok || !proven.holds(said.Time) {
		return nil, false
	}
	// Where the token contains certificates, ParseResponse has verified its
	// signature with them.
	if len(said.Certificates) == 0 && message.Verify() != nil {
		return nil, false
	}
	sum := said.HashAlgorithm.New()
	sum.Write(signature)
	if !bytes.Equal(sum.Sum(nil), said.HashedMessage) {
		return nil, false
	}
	return &root.Timestamp{Time: said.Time, URI: s.URI}, true
}

// remember caches the signer of a timestamp that was verified in full. The
// entry is valid while all certificates that could be part of the chain are.
func (s *stamper) remember(token []byte) {
	said, err := timestamp.ParseResponse(token)
	if err != nil {
		return
	}
	message, key, ok := s.signer(said)
	if !ok {
		return
	}
	all := slices.Concat([]*x509.Certificate{s.Root}, s.Intermediates, message.Certificates)
	s.proven.keep(key, lifetime(all...).within(s.ValidityPeriodStart, s.ValidityPeriodEnd))
}

// signer reads a token and returns a key for its only signer: the bytes of all
// certificates in the token, followed by those of the signer's. For a token
// without certificates it uses the certificate in the trust root.
func (s *stamper) signer(said *timestamp.Timestamp) (message *pkcs7.PKCS7, key []byte, ok bool) {
	message, err := pkcs7.Parse(said.RawToken)
	if err != nil {
		return nil, nil, false
	}
	for _, c := range message.Certificates {
		key = append(key, c.Raw...) // DER contains its own length
	}
	if message.Certificates == nil && s.Leaf != nil {
		message.Certificates = []*x509.Certificate{s.Leaf}
	}
	signer := message.GetOnlySigner()
	if signer == nil {
		return nil, nil, false
	}
	return message, append(key, signer.Raw...), true
}

// strongHash reports whether a timestamp may use such a digest.
func strongHash(h crypto.Hash) bool {
	return h == crypto.SHA256 || h == crypto.SHA384 || h == crypto.SHA512
}
