package bundles

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// Bare is the limit: the signatures that nobody can do without, of the same
// kinds of keys, and one hash of every byte, with nothing parsed, nothing
// compared and nothing looked up. What is the same for every bundle of the set
// costs nothing here: the authorities' own chains, and a shared certificate.
func Bare(s Set) (Way, error) {
	p256, err := newCurve(elliptic.P256())
	if err != nil {
		return nil, err
	}
	p384, err := newCurve(elliptic.P384())
	if err != nil {
		return nil, err
	}
	ed, err := newEd25519()
	if err != nil {
		return nil, err
	}
	checks := []func() bool{p256} // the signature of the artifact
	if s.Shape == RekorV1 {
		checks = append(checks, p256, p256) // promise and checkpoint
	} else {
		checks = append(checks, ed, p384) // checkpoint and timestamp
	}
	if !s.Shared {
		checks = append(checks, p384, p256) // the certificate and its log's promise
	}
	return func(list []Signed) error {
		for _, b := range list {
			sha256.Sum256(b.Raw)
			for _, holds := range checks {
				if !holds() {
					return errors.New("a signature of our own does not hold")
				}
			}
		}
		return nil
	}, nil
}

func newCurve(c elliptic.Curve) (func() bool, error) {
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte("a message"))
	sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	return func() bool { return ecdsa.VerifyASN1(&key.PublicKey, sum[:], sig) }, err
}

func newEd25519() (func() bool, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	message := make([]byte, 128) // about a checkpoint
	sig := ed25519.Sign(key, message)
	return func() bool { return ed25519.Verify(public, message, sig) }, nil
}
