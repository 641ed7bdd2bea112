package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
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
	named := w.naming(t, p256.Public(), rsa2048.Public())
	keyed := func(m *meddler, key crypto.Signer) (*sign.Signer, error) {
		c := sign.Config{Role: policy.Release, Policy: named, Verifier: w.verifier, Services: w.services, Transport: m, Clock: w.now}
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

// naming is the world's policy, with keys that may release, too.
func (w *world) naming(t *testing.T, keys ...crypto.PublicKey) policy.Policy {
	t.Helper()
	text := "  release:\n"
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		block := strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
		text += fmt.Sprintf("  - {key: %q}\n", block)
	}
	p, err := policy.Parse([]byte(strings.Replace(policyText(w.Issuer), "  release:\n", text, 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKeyOfAStranger: who holds a key that the policy does not name in the role
// signs nothing and asks nobody; what was signed elsewhere with one is refused,
// and the twin that is named is accepted.
func TestKeyOfAStranger(t *testing.T) {
	w := newWorld(t)
	keys := map[string]*ecdsa.PrivateKey{}
	for _, name := range []string{"named", "stranger"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = key
	}
	named, theirs := w.naming(t, keys["named"].Public()), w.naming(t, keys["stranger"].Public())
	sign1 := func(p policy.Policy, role policy.Role, key crypto.Signer) (bundle []byte, requests int, err error) {
		m := w.honest()
		s, err := sign.NewKeyed(sign.Config{Role: role, Policy: p, Verifier: w.verifier, Services: w.services, Transport: m, Clock: w.now}, key)
		if err == nil {
			bundle, _, err = s.Blob(t.Context(), file(1))
		}
		return bundle, m.all, err
	}
	for _, c := range []struct {
		name string
		role policy.Role
		key  string
		want verdict.Code
	}{
		{"the key that is named", policy.Release, "named", ""},
		{"a stranger's key", policy.Release, "stranger", verdict.SignedAsElse},
		{"the key in another role", policy.Verifier, "named", verdict.SignedAsElse},
	} {
		_, requests, err := sign1(named, c.role, keys[c.key])
		if refused(t, err, c.want); c.want != "" && requests > 0 {
			t.Errorf("%s: %d requests before it was refused", c.name, requests)
		}
	}
	r, err := trust.Parse(w.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.NewWith(r, named.Verification())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		by   policy.Policy
		key  string
		want verdict.Code
	}{{named, "named", ""}, {theirs, "stranger", "KEY_UNKNOWN"}} {
		bundle, _, err := sign1(c.by, policy.Release, keys[c.key])
		if err != nil {
			t.Fatal(err)
		}
		e, err := v.Blob(bundle, file(1))
		refused(t, err, c.want)
		if c.want == "" {
			_, err = named.Judge(e, policy.Ask{Role: policy.Release, Kind: "blob", Subject: "file", Bytes: file(1)})
			refused(t, err, "")
			_, err = w.policy.Judge(e, policy.Ask{Role: policy.Release, Kind: "blob", Subject: "file", Bytes: file(1)})
			refused(t, err, verdict.Identity)
		}
	}
}
