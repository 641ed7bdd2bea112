package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/sign"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// TestKeyed: a long-lived key signs without a certificate, in its role, and
// what it signs is verified with that key and no other.
func TestKeyed(t *testing.T) {
	w := newWorld(t)
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsa2048, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	path := journalIn(t)
	keep := keeping(t, path)
	keyed := func(m *meddler, key crypto.Signer) (*sign.Signer, error) {
		c := sign.Config{Role: policy.Release, Policy: w.policy, Verifier: w.verifier, Services: w.services, Transport: m, Clock: w.now}
		keep(&c)
		return sign.NewKeyed(c, key)
	}
	for name, key := range map[string]crypto.Signer{"P-256": p256, "RSA": rsa2048} {
		m := w.honest()
		s, err := keyed(m, key)
		if err != nil {
			t.Fatal(err)
		}
		bundle, e, err := s.Blob(t.Context(), file(1))
		if err != nil || e.Key().IsZero() || m.to("fulcio") != 0 {
			t.Errorf("%s: %v, with %d certificates", name, err, m.to("fulcio"))
			continue
		}
		if _, _, err := s.Statement(t.Context(), said(t, 1)); err != nil {
			t.Errorf("%s: a statement: %v", name, err)
		}
		_, _, err = s.Statement(t.Context(), provenance(t))
		refused(t, err, verdict.IdentityRole)
		_, err = w.verifier.Blob(bundle, file(1))
		refused(t, err, verdict.MaterialKind)
		if again, _, err := s.Blob(t.Context(), file(1)); err != nil || again == nil || s.Tally().Found != 1 {
			t.Errorf("%s: again: %v, %+v", name, err, s.Tally())
		}
	}
	for name, key := range map[string]crypto.Signer{"P-384": p384, "Ed25519": ed} {
		_, err := keyed(w.honest(), key)
		if verdict.OutcomeOf(err) != verdict.Malformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}
