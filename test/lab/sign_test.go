package lab_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/waybill-release/waybill/test/lab"
	"google.golang.org/protobuf/encoding/protojson"
)

const inTotoPayload = "application/vnd.in-toto+json"

// signAs signs content keylessly the way any sigstore-go client does.
func signAs(l *lab.Lab, token string, content sign.Content) (*bundle.Bundle, error) {
	key, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return nil, err
	}
	pb, err := sign.Bundle(content, key, sign.BundleOptions{
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: l.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: token},
		TimestampAuthorities:       []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: l.TSA})},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: l.Rekor, Version: 2})},
	})
	if err != nil {
		return nil, err
	}
	b, err := protojson.Marshal(pb)
	if err != nil {
		return nil, err
	}
	var out bundle.Bundle
	return &out, out.UnmarshalJSON(b)
}

// check verifies with every kind of evidence that the lab gives.
func check(trustedRoot []byte, b *bundle.Bundle, artifact verify.ArtifactPolicyOption, issuer, subject string) error {
	tr, err := root.NewTrustedRootFromJSON(trustedRoot)
	if err != nil {
		return err
	}
	v, err := verify.NewVerifier(tr, verify.WithSignedCertificateTimestamps(1), verify.WithTransparencyLog(1), verify.WithSignedTimestamps(1))
	if err != nil {
		return err
	}
	id, err := verify.NewShortCertificateIdentity(issuer, "", subject, "")
	if err != nil {
		return err
	}
	_, err = v.Verify(b, verify.NewPolicy(artifact, verify.WithCertificateIdentity(id)))
	return err
}

func statement(name string, content []byte) []byte {
	sum := sha256.Sum256(content)
	return fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":%q,"digest":{"sha256":%q}}],`+
		`"predicateType":"https://slsa.dev/provenance/v1","predicate":{}}`, name, hex.EncodeToString(sum[:]))
}

func digestOf(content string) verify.ArtifactPolicyOption {
	sum := sha256.Sum256([]byte(content))
	return verify.WithArtifactDigest("sha256", sum[:])
}

func TestSignAndVerify(t *testing.T) {
	began := time.Now()
	l := lab.New(t)
	t.Logf("lab up in %v", time.Since(began))

	const good = "an artifact"
	issuer, release := l.Identity(lab.RoleRelease)
	_, builder := l.Identity(lab.RoleBuilder)
	contents := map[string]sign.Content{
		"blob":      &sign.PlainData{Data: []byte(good)},
		"statement": &sign.DSSEData{Data: statement("a", []byte(good)), PayloadType: inTotoPayload},
	}
	cases := []struct {
		name, artifact, issuer, subject, refusal string
	}{
		{"accepted", good, issuer, release, ""},
		{"another artifact", "another", issuer, release, "digest"},
		{"another role", good, issuer, builder, "no matching CertificateIdentity"},
		{"another issuer", good, "http://127.0.0.1:1", release, "no matching CertificateIdentity"},
	}
	for kind, content := range contents {
		b, err := signAs(l, l.Token(lab.RoleRelease), content)
		if err != nil {
			t.Fatalf("signing a %s: %v", kind, err)
		}
		for _, c := range cases {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				expect(t, check(l.TrustedRoot, b, digestOf(c.artifact), c.issuer, c.subject), c.refusal)
			})
		}
	}
}

// expect fails the test unless err is the refusal, or nil when that is empty.
func expect(t *testing.T, err error, refusal string) {
	t.Helper()
	switch {
	case refusal == "" && err != nil:
		t.Errorf("refused: %v", err)
	case refusal != "" && err == nil:
		t.Errorf("accepted, want a refusal naming %q", refusal)
	case refusal != "" && !strings.Contains(err.Error(), refusal):
		t.Errorf("refused with %q, want a refusal naming %q", err, refusal)
	}
}

func TestAnotherLabIsAnotherWorld(t *testing.T) {
	here, there := lab.New(t), lab.New(t)
	b, err := signAs(here, here.Token(lab.RoleRelease), &sign.PlainData{Data: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	issuer, subject := here.Identity(lab.RoleRelease)
	expect(t, check(here.TrustedRoot, b, digestOf("x"), issuer, subject), "")
	expect(t, check(there.TrustedRoot, b, digestOf("x"), issuer, subject), "log")
	if _, err := signAs(there, here.Token(lab.RoleRelease), &sign.PlainData{Data: []byte("x")}); err == nil {
		t.Error("Fulcio took another issuer's token")
	}
}

// TestOtherIssuer signs with the token of an issuer that the lab was told of. The
// certificate names that issuer, not the lab's.
func TestOtherIssuer(t *testing.T) {
	other := lab.New(t)
	l := lab.NewWith(t, lab.Options{Issuers: []string{other.Issuer}})
	b, err := signAs(l, other.Token(lab.RoleRelease), &sign.PlainData{Data: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	issuer, subject := other.Identity(lab.RoleRelease)
	expect(t, check(l.TrustedRoot, b, digestOf("x"), issuer, subject), "")
	expect(t, check(l.TrustedRoot, b, digestOf("x"), l.Issuer, subject), "certificate identity")
}

func TestFulcioReadsTokens(t *testing.T) {
	past := func() time.Time { return time.Now().Add(-time.Hour) }
	cases := []struct {
		name   string
		clock  func() time.Time
		claims map[string]any
		ok     bool
	}{
		{"a fresh token", nil, nil, true},
		{"an expired token", past, nil, false},
		{"a token for another audience", nil, map[string]any{"aud": "elsewhere"}, false},
		{"an address that is not verified", nil, map[string]any{"email_verified": false}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := lab.NewWith(t, lab.Options{Clock: c.clock})
			token, err := l.Mint(lab.RoleRelease, c.claims)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := signAs(l, token, &sign.PlainData{Data: []byte("x")}); (err == nil) != c.ok {
				t.Errorf("signing: %v", err)
			}
		})
	}
}

func TestParallelSignatures(t *testing.T) {
	l := lab.New(t)
	issuer, subject := l.Identity("someone@example.invalid")
	const n = 50
	began := time.Now()
	errs := make(chan error, n)
	for i := range n {
		go func() {
			artifact := fmt.Sprint("artifact ", i)
			b, err := signAs(l, l.Token("someone@example.invalid"), &sign.PlainData{Data: []byte(artifact)})
			errs <- errors.Join(err, func() error {
				if err != nil {
					return nil
				}
				return check(l.TrustedRoot, b, digestOf(artifact), issuer, subject)
			}())
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d signatures and verifications, %v each", n, time.Since(began)/n)
}

func TestNotLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0", "::", "192.0.2.1", "localhost", "example.invalid", "127.0.0.1:80"} {
		if l, err := lab.Start(context.Background(), lab.Options{Address: address}); !errors.Is(err, lab.ErrNotLoopback) {
			t.Errorf("address %q: %v", address, err)
			if err == nil {
				_ = l.Close()
			}
		}
	}
	for _, address := range []string{"", "127.0.0.1"} {
		lab.NewWith(t, lab.Options{Address: address})
	}
}

func BenchmarkSign(b *testing.B) {
	l := lab.New(b)
	for i := range b.N {
		if _, err := signAs(l, l.Token(lab.RoleRelease), &sign.PlainData{Data: fmt.Append(nil, i)}); err != nil {
			b.Fatal(err)
		}
	}
}
