package verify

import (
	"crypto"
	"crypto/ecdsa"
	_ "crypto/sha1" // of the weak timestamp
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"
)

// timestampBy is a timestamp of a signature over a digest of the algorithm id, by a
// leaf; the token contains the leaf and its parents.
func timestampBy(t *testing.T, signature []byte, hash crypto.Hash, id asn1.ObjectIdentifier, key *ecdsa.PrivateKey, leaf *x509.Certificate, parents ...*x509.Certificate) []byte {
	t.Helper()
	sum := hash.New()
	sum.Write(signature)
	type imprint struct {
		Algorithm pkix.AlgorithmIdentifier
		Hashed    []byte
	}
	said, err := asn1.Marshal(struct {
		Version int
		Policy  asn1.ObjectIdentifier
		Imprint imprint
		Serial  *big.Int
		Time    time.Time `asn1:"generalized"`
	}{1, asn1.ObjectIdentifier{1, 2, 3}, imprint{pkix.AlgorithmIdentifier{Algorithm: id}, sum.Sum(nil)}, big.NewInt(1), day0.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := pkcs7.NewSignedData(said)
	if err != nil {
		t.Fatal(err)
	}
	signed.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
	signed.SetContentType(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 1, 4})
	if err := signed.AddSignerChain(leaf, key, parents, pkcs7.SignerInfoConfig{}); err != nil {
		t.Fatal(err)
	}
	inner, err := signed.Finish()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := asn1.Marshal(struct {
		Status struct{ Status int }
		Token  asn1.RawValue
	}{Token: asn1.RawValue{FullBytes: inner}})
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

var (
	idSHA1   = asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}
	idSHA256 = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
)

// TestRememberedAuthorityOfWeakTimestamps: an authority that was proven once
// signs a timestamp over a weak digest. It is left to the library to refuse, as
// when nothing was proven.
func TestRememberedAuthorityOfWeakTimestamps(t *testing.T) {
	top, topKey := issueTo(t, authority("root"), nil, nil)
	leaf, key := issueTo(t, signer("timestamps@example.test"), top, topKey)
	signature := []byte("signature")
	strong := timestampBy(t, signature, crypto.SHA256, idSHA256, key, leaf)
	weak := timestampBy(t, signature, crypto.SHA1, idSHA1, key, leaf)
	s := &stamper{SigstoreTimestampingAuthority: &root.SigstoreTimestampingAuthority{Root: top, Leaf: leaf}}
	if _, ok := s.again(strong, signature); ok {
		t.Error("taken from memory, and nothing was proven")
	}
	s.remember(strong)
	if _, ok := s.again(strong, signature); !ok {
		t.Error("the twin over SHA-256 is not taken from memory")
	}
	said, err := timestamp.ParseResponse(weak)
	if err != nil || said.HashAlgorithm != crypto.SHA1 {
		t.Fatalf("the weak timestamp is of %v: %v", said, err)
	}
	if _, ok := s.again(weak, signature); ok {
		t.Error("a timestamp over SHA-1 is taken from memory")
	}
	if _, err := s.Verify(weak, signature); err == nil {
		t.Error("a timestamp over SHA-1 is accepted")
	}
}

// TestRememberedAuthorityWithoutItsChain: an authority was proven by the
// intermediate certificate in a timestamp. A timestamp without that certificate
// proves no chain, so memory must not accept it.
func TestRememberedAuthorityWithoutItsChain(t *testing.T) {
	top, topKey := issueTo(t, authority("root"), nil, nil)
	middle, middleKey := issueTo(t, authority("middle"), top, topKey)
	template := signer("timestamps@example.test")
	template.ExtKeyUsage = nil
	template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{ // the library asks that it is critical
		Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: []byte{0x30, 0x0a, 0x06, 0x08, 0x2b, 6, 1, 5, 5, 7, 3, 8},
	})
	leaf, key := issueTo(t, template, middle, middleKey)
	signature := []byte("signature")
	s := &stamper{SigstoreTimestampingAuthority: &root.SigstoreTimestampingAuthority{Root: top}}
	whole := timestampBy(t, signature, crypto.SHA256, idSHA256, key, leaf, middle)
	short := timestampBy(t, signature, crypto.SHA256, idSHA256, key, leaf)
	for _, when := range []string{"cold", "warm"} {
		if _, err := s.Verify(whole, signature); err != nil {
			t.Errorf("%s: the twin with the intermediate: %v", when, err)
		}
		if _, err := s.Verify(short, signature); err == nil {
			t.Errorf("%s: a timestamp without the intermediate is accepted", when)
		}
	}
	if _, ok := s.again(whole, signature); !ok {
		t.Error("the twin with the intermediate is not taken from memory")
	}
}
