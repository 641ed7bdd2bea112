package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
)

const artifact = "the bytes of an artifact\n"

// scene is a lab with its files in a directory, and an artifact.
type scene struct {
	*lab.Lab
	dir string
}

func newScene(t *testing.T) scene {
	t.Helper()
	s := scene{lab.New(t), t.TempDir()}
	for name, body := range map[string][]byte{"root": s.TrustedRoot, "config": s.SigningConfig, "artifact": []byte(artifact), "other": []byte("other")} {
		if err := os.WriteFile(s.path(name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s scene) path(name string) string { return filepath.Join(s.dir, name) }

// verify asks whether the release role signed.
func (s scene) verify(artifact string) error {
	issuer, subject := s.Identity(lab.RoleRelease)
	r := &request{bundle: s.path("bundle"), subject: subject, issuer: issuer, trustedRoot: s.path("root")}
	return r.run(artifact)
}

// TestSignBundle signs in a lab and verifies what came out.
func TestSignBundle(t *testing.T) {
	s := newScene(t)
	o := &order{token: s.Token(lab.RoleRelease), bundle: s.path("bundle"), signingConfig: s.path("config"), trustedRoot: s.path("root")}
	if err := o.run(t.Context(), s.path("artifact")); err != nil {
		t.Fatal(err)
	}
	if err := s.verify(s.path("artifact")); err != nil {
		t.Errorf("by file: %v", err)
	}
	if err := s.verify(digest.Of(digest.SHA256, []byte(artifact)).String()); err != nil {
		t.Errorf("by digest: %v", err)
	}
	if s.verify(s.path("other")) == nil {
		t.Error("accepted for another artifact")
	}
	issuer, subject := s.Identity(lab.RoleBuilder)
	stranger := &request{bundle: s.path("bundle"), subject: subject, issuer: issuer, trustedRoot: s.path("root")}
	if stranger.run(s.path("artifact")) == nil {
		t.Error("accepted for another identity")
	}
}

// TestSignBundleRefuses: nothing is written without a token, a place to sign
// or a trust root that knows the place.
func TestSignBundleRefuses(t *testing.T) {
	s := newScene(t)
	good := order{token: s.Token(lab.RoleRelease), bundle: s.path("bundle"), signingConfig: s.path("config"), trustedRoot: s.path("root")}
	rows := []struct {
		name, why string
		change    func(*order)
	}{
		{"no token", "not a signed web token", func(o *order) { o.token = "" }},
		{"a token of nobody", "no issuer", func(o *order) { o.token = "e30.e30.e30" }},
		{"an unsigned token", "TOKEN_REFUSED", func(o *order) { o.token = o.token[:strings.LastIndexByte(o.token, '.')+1] }},
		{"no signing config", "no such file", func(o *order) { o.signingConfig = s.path("missing") }},
		{"another trust root", "CHAIN_UNTRUSTED", func(o *order) { o.trustedRoot = "" }},
	}
	for _, r := range rows {
		o := good
		r.change(&o)
		if err := o.run(t.Context(), s.path("artifact")); err == nil || !strings.Contains(err.Error(), r.why) {
			t.Errorf("%s: %v, want %s", r.name, err, r.why)
		}
	}
	if _, err := os.Stat(s.path("bundle")); err == nil {
		t.Error("a bundle was written")
	}
}

// TestSHA512 verifies by a digest of the other kind: a statement that names
// its subject so, and a signature of a key that hashes so.
func TestSHA512(t *testing.T) {
	long := digest.Of(digest.SHA512, []byte(artifact))
	rows := map[string]struct {
		content   sign.Content
		algorithm commonpb.PublicKeyDetails
	}{
		"statement": {&sign.DSSEData{PayloadType: "application/vnd.in-toto+json", Data: []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[` +
			`{"name":"artifact","digest":{"sha512":"` + long.Hex() + `"}}],"predicateType":"https://example.test/predicate/v1","predicate":{}}`)},
			commonpb.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256},
		"signature": {&sign.PlainData{Data: []byte(artifact)}, commonpb.PublicKeyDetails_PKIX_ECDSA_P521_SHA_512},
	}
	s := newScene(t)
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(s.path("bundle"), signed(t, s, r.content, r.algorithm), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, subject := range []string{s.path("artifact"), long.String()} {
				if err := s.verify(subject); err != nil {
					t.Errorf("%s: %v", subject, err)
				}
			}
			for _, subject := range []string{other(long.String()), digest.Of(digest.SHA256, []byte(artifact)).String(), s.path("other")} {
				if s.verify(subject) == nil {
					t.Errorf("accepted for %s", subject)
				}
			}
		})
	}
}

// TestBothDigests: where the file is there, both digests of a subject count.
func TestBothDigests(t *testing.T) {
	s, set := newScene(t), digest.SetOf([]byte(artifact))
	for long, want := range map[string]bool{set.SHA512.Hex(): true, digest.Of(digest.SHA512, nil).Hex(): false} {
		content := &sign.DSSEData{PayloadType: "application/vnd.in-toto+json", Data: []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[` +
			`{"name":"artifact","digest":{"sha256":"` + set.SHA256.Hex() + `","sha512":"` + long + `"}}],"predicateType":"https://example.test/predicate/v1","predicate":{}}`)}
		if err := os.WriteFile(s.path("bundle"), signed(t, s, content, commonpb.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.verify(s.path("artifact")); (err == nil) != want {
			t.Errorf("accepted is %t, want %t: %v", err == nil, want, err)
		}
	}
}

func signed(t *testing.T, s scene, content sign.Content, algorithm commonpb.PublicKeyDetails) []byte {
	t.Helper()
	pair, err := sign.NewEphemeralKeypair(&sign.EphemeralKeypairOptions{Algorithm: algorithm})
	if err != nil {
		t.Fatal(err)
	}
	var b *bundlepb.Bundle
	b, err = sign.Bundle(content, pair, sign.BundleOptions{
		Context:                    t.Context(),
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: s.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: s.Token(lab.RoleRelease)},
		TimestampAuthorities:       []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: s.TSA})},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: s.Rekor, Version: 2})},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
