package verify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"testing"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
)

// TestOlderClients: a key of P-384 or P-521 may have signed a SHA-256 digest; this
// one, and with the key of the certificate.
func TestOlderClients(t *testing.T) {
	sum, other := sha256.Sum256([]byte("signed")), sha256.Sum256([]byte("other"))
	for _, row := range []struct {
		name      string
		curve     elliptic.Curve
		said      []byte
		algorithm protocommon.HashAlgorithm
		stranger  bool
		want      bool
	}{
		{"P-384", elliptic.P384(), sum[:], protocommon.HashAlgorithm_SHA2_256, false, true},
		{"P-521", elliptic.P521(), sum[:], protocommon.HashAlgorithm_SHA2_256, false, true},
		{"P-256, which sigstore-go verifies alone", elliptic.P256(), sum[:], protocommon.HashAlgorithm_SHA2_256, false, false},
		{"another digest", elliptic.P384(), other[:], protocommon.HashAlgorithm_SHA2_256, false, false},
		{"a digest that is called SHA-384", elliptic.P384(), sum[:], protocommon.HashAlgorithm_SHA2_384, false, false},
		{"another key", elliptic.P384(), sum[:], protocommon.HashAlgorithm_SHA2_256, true, false},
	} {
		key, err := ecdsa.GenerateKey(row.curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		if row.stranger {
			if key, err = ecdsa.GenerateKey(row.curve, rand.Reader); err != nil {
				t.Fatal(err)
			}
		}
		content := &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: row.algorithm, Digest: row.said}, Signature: signature,
		}}
		m := material{entity: &bundle.Bundle{Bundle: &protobundle.Bundle{Content: content}}, leaf: &x509.Certificate{PublicKey: key.Public()}}
		if got := m.signedByOlderClient(); got != row.want {
			t.Errorf("%s: %t", row.name, got)
		}
		if m.leaf = nil; m.signedByOlderClient() {
			t.Errorf("%s: without a certificate", row.name)
		}
	}
}
