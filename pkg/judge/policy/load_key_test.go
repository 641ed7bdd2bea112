package policy_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// keyed is a policy whose verifier signs with a key.
const keyed = `apiVersion: waybill/v1
kind: Policy
name: keyed
roles:
  release: [{issuer: "https://accounts.example.test", subject: release@example.test, type: email}]
  verifier:
  - key: |
KEY
builders:
- id: https://example.test/builder
  level: 1
  signers: [{issuer: "https://accounts.example.test", subject: builder@example.test, type: email}]
source: {repository: "git+https://example.test/source"}
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {provenance: require, signature: require, sbom: require}}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`

func publicKey(t *testing.T, curve elliptic.Curve) (text string, name digest.Digest) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(crypto.PublicKey(&key.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), digest.Of(digest.SHA256, der)
}

func indented(text string) string {
	return "      " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n      ")
}

// TestKeyInAPolicy: a policy names a key by its whole public key, in a role,
// and what a key cannot have is refused.
func TestKeyInAPolicy(t *testing.T) {
	key, name := publicKey(t, elliptic.P256())
	other, otherName := publicKey(t, elliptic.P256())
	good := strings.Replace(keyed, "KEY", indented(key), 1)
	p, err := policy.Parse([]byte(good), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckIdentity(identity.OfKey(name), policy.Verifier, time.Now()); err != nil || len(p.Verification().Keys) != 1 {
		t.Errorf("%v, %d keys", err, len(p.Verification().Keys))
	}
	for what, who := range map[string]identity.Identity{
		"another key": identity.OfKey(otherName), "no key": identity.OfKey(digest.Digest{}),
		"a name of the same text": {Subject: name.String(), Type: identity.Email},
	} {
		if p.CheckIdentity(who, policy.Verifier, time.Now()) == nil {
			t.Errorf("%s is known", what)
		}
	}
	weak, _ := publicKey(t, elliptic.P384())
	release := `release: [{issuer: "https://accounts.example.test", subject: release@example.test, type: email}]`
	for what, c := range map[string]struct {
		text string
		says string
	}{
		"two keys in one":   {strings.Replace(keyed, "KEY", indented(key+other), 1), "one public key"},
		"a private key":     {strings.Replace(keyed, "KEY", indented(strings.ReplaceAll(key, "PUBLIC", "PRIVATE")), 1), "one public key"},
		"a digest":          {strings.Replace(keyed, "KEY", "      "+name.String(), 1), "one public key"},
		"no base64":         {strings.Replace(keyed, "KEY", indented("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), 1), "roles.verifier[0].key"},
		"a kind of none":    {strings.Replace(keyed, "KEY", indented(weak), 1), "ECDSA P-256"},
		"nothing":           {good + "#", ""},
		"in two roles":      {strings.Replace(good, release, strings.Replace(release, "]", "", 1)+", {key: \""+strings.ReplaceAll(strings.TrimSpace(key), "\n", "\\n")+"\"}]", 1), "its own identity"},
		"of a builder":      {strings.Replace(good, "signers: [{", "signers: [{key: \""+strings.ReplaceAll(strings.TrimSpace(other), "\n", "\\n")+"\"}, {", 1), "list the builder by identity"},
		"and an issuer too": {strings.Replace(good, "  - key: |", "  - issuer: https://accounts.example.test\n    key: |", 1), "a key has no certificate"},
		"and claims":        {strings.Replace(good, "  - key: |", "  - claims: {sourceRepository: x}\n    key: |", 1), "a key has no certificate"},
	} {
		_, err := policy.Parse([]byte(c.text), nil)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("the twin: %v", err)
		case c.says != "" && (verdict.OutcomeOf(err) != verdict.Malformed || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", what, err, c.says)
		case c.says == "one public key" && verdict.FindingOf("", err).Code != verdict.ConfigParse: // it is no weak policy
			t.Errorf("%s: %v", what, err)
		}
	}
}
