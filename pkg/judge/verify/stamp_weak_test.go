package verify

import (
	"crypto"
	_ "crypto/sha1" // of the weak timestamp
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"
)

// TestRememberedAuthorityOfWeakTimestamps: an authority that was proven once
// signs a timestamp over a weak digest. It is left to the library to refuse, as
// when nothing was proven.
func TestRememberedAuthorityOfWeakTimestamps(t *testing.T) {
	top, topKey := issueTo(t, authority("root"), nil, nil)
	leaf, key := issueTo(t, signer("timestamps@example.test"), top, topKey)
	signature := []byte("signature")
	token := func(hash crypto.Hash, id ...int) []byte {
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
		if err := signed.AddSigner(leaf, key, pkcs7.SignerInfoConfig{}); err != nil {
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
	strong := token(crypto.SHA256, 2, 16, 840, 1, 101, 3, 4, 2, 1)
	weak := token(crypto.SHA1, 1, 3, 14, 3, 2, 26)
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
