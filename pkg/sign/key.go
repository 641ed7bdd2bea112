package sign

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
)

// key is an ephemeral ECDSA P-256 key as sigstore-go wants to see one.
type key struct {
	private *ecdsa.PrivateKey
	public  []byte // PKIX, DER
}

func newKey() (*key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding public key: %w", err)
	}
	return &key{private: private, public: public}, nil
}

// GetHashAlgorithm is SHA-256.
func (k *key) GetHashAlgorithm() common.HashAlgorithm { return common.HashAlgorithm_SHA2_256 }

// GetSigningAlgorithm is ECDSA P-256 with SHA-256.
func (k *key) GetSigningAlgorithm() common.PublicKeyDetails {
	return common.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256
}

// GetHint names the key by its digest.
func (k *key) GetHint() []byte {
	sum := sha256.Sum256(k.public)
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

// GetKeyAlgorithm is what the certificate authority calls it.
func (k *key) GetKeyAlgorithm() string { return "ECDSA" }

// GetPublicKey is the public half.
func (k *key) GetPublicKey() crypto.PublicKey { return k.private.Public() }

// GetPublicKeyPem is the public half, encoded.
func (k *key) GetPublicKeyPem() (string, error) {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: k.public})), nil
}

// SignData signs data and returns the signature and the digest it covers.
func (k *key) SignData(_ context.Context, data []byte) ([]byte, []byte, error) {
	sum := sha256.Sum256(data)
	return k.signDigest(sum[:])
}

func (k *key) signDigest(sum []byte) ([]byte, []byte, error) {
	signature, err := k.private.Sign(rand.Reader, sum, crypto.SHA256)
	if err != nil {
		return nil, nil, fmt.Errorf("signing: %w", err)
	}
	return signature, sum, nil
}

// prehashed signs data that is a SHA-256 digest already, so that a file of any
// size is signed without being read again.
type prehashed struct{ *key }

// SignData signs the digest.
func (p prehashed) SignData(_ context.Context, sum []byte) ([]byte, []byte, error) {
	if len(sum) != sha256.Size {
		return nil, nil, fmt.Errorf("signing: %d bytes are not a SHA-256 digest", len(sum))
	}
	return p.signDigest(sum)
}
