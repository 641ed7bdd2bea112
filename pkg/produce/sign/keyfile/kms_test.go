//go:build kms

package keyfile

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"testing"

	"github.com/sigstore/sigstore/pkg/signature/kms/fake"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestOpenKMS(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := OpenKMS(t.Context(), "nobody://key"); verdict.OutcomeOf(err) != verdict.Malformed {
		t.Errorf("a service that nobody has: %v", err)
	}
	private := generated(t)
	key, err := OpenKMS(context.WithValue(t.Context(), fake.KmsCtxKey{}, private), fake.ReferenceScheme)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("x"))
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil || !ecdsa.VerifyASN1(&private.PublicKey, sum[:], signature) {
		t.Errorf("the service's signature does not hold: %v", err)
	}
}
