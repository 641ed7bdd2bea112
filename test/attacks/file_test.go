package attacks

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestSingleFiles asks about one file and what lies beside it (A20, A22).
func TestSingleFiles(t *testing.T) {
	w := theWorld(t)
	issuer, release := w.Lab.Identity(lab.RoleRelease)
	who := must[identity.Matcher](t)(identity.Exact(identity.Identity{Issuer: issuer, Subject: release, Type: identity.Email}))
	a, stranger := w.author(t, lab.RoleRelease), w.author(t, "mallory@evil.example")
	signature, attestation := encode(t, a.sign(t, blob())), encode(t, a.sign(t, envelope(statement())))
	theirs := encode(t, stranger.sign(t, blob()))
	by := gate.SignedBy(w.verifier, who)
	rows := []struct {
		name   string
		beside []byte
		body   string
		ask    gate.Ask
		codes  []verdict.Code
	}{
		{"a signature", signature, artifact, gate.Ask{Signer: by}, nil},
		{"an attestation", attestation, artifact, gate.Ask{Signer: by, Type: kind}, nil},
		{"an attestation of the name", attestation, artifact, gate.Ask{Signer: by, Type: kind, Subject: artifactName}, nil},
		{"an attestation of another name", attestation, artifact, gate.Ask{Signer: by, Type: kind, Subject: otherBinary}, codes(verdict.NotBound)},
		{"nothing beside it", nil, artifact, gate.Ask{Signer: by}, codes(verdict.EvidenceMissing)},
		{"another file", signature, artifact + "x", gate.Ask{Signer: by}, codes(verdict.NotBound)},
		{"another file than attested", attestation, artifact + "x", gate.Ask{Signer: by, Type: kind}, codes(verdict.NotBound)},
		{"A20 an attestation of another kind", attestation, artifact, gate.Ask{Signer: by, Type: kind + "1"}, codes(verdict.PredicateNone)},
		{"A20 a signature where an attestation is asked for", signature, artifact, gate.Ask{Signer: by, Type: kind}, codes(verdict.PredicateNone)},
		{"A18 an attestation where a signature is asked for", attestation, artifact, gate.Ask{Signer: by}, codes(verdict.MaterialKind)},
		{"signed by a stranger", theirs, artifact, gate.Ask{Signer: by}, codes(verdict.Identity)},
		{"C07 signed by anybody", theirs, artifact, gate.Ask{Signer: gate.SignedBy(w.verifier)}, codes(verdict.Usage)},
		{"C07 signed by nobody in particular", signature, artifact, gate.Ask{Signer: gate.SignedBy(w.verifier, identity.Matcher{})}, codes(verdict.Identity)},
		{"nobody asked", signature, artifact, gate.Ask{}, codes(verdict.Usage)},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lantern")
			files := map[string][]byte{path: []byte(r.body)}
			if r.beside != nil {
				files[path+gate.BundleSuffix] = r.beside
			}
			for name, body := range files {
				if err := os.WriteFile(name, body, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			v := gate.Files(t.Context(), gate.FileRequest{Files: []gate.File{{Path: path}}, Ask: r.ask, Now: time.Now()})
			refused(t, v.Err(), r.codes...)
		})
	}
	refused(t, gate.Files(t.Context(), gate.FileRequest{Ask: gate.Ask{Signer: by}, Now: time.Now()}).Err(), verdict.Usage)
}

// TestDigestsOfAnotherKind: a digest is held against one of its own kind.
// Where the evidence has none, nothing is known, and nothing is said of another
// artifact.
func TestDigestsOfAnotherKind(t *testing.T) {
	w := theWorld(t)
	issuer, release := w.Lab.Identity(lab.RoleRelease)
	who := must[identity.Matcher](t)(identity.Exact(identity.Identity{Issuer: issuer, Subject: release, Type: identity.Email}))
	a := w.author(t, lab.RoleRelease)
	known := digest.SetOf([]byte(artifact))
	shorter := string(statement())
	longer := strings.Replace(shorter, `"sha256":"`+known.SHA256.Hex(), `"sha512":"`+known.SHA512.Hex(), 1)
	path := func(b *bundlepb.Bundle) string {
		name := filepath.Join(t.TempDir(), "bundle.json")
		if err := os.WriteFile(name, encode(t, b), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	signature, said256, said512 := path(a.sign(t, blob())), path(a.sign(t, envelope([]byte(shorter)))), path(a.sign(t, envelope([]byte(longer))))
	rows := []struct {
		name, bundle, kind string
		of                 digest.Digest
		codes              []verdict.Code
	}{
		{"a signature", signature, "", known.SHA256, nil},
		{"a signature of another artifact", signature, "", digest.Of(digest.SHA256, nil), codes(verdict.NotBound)},
		{"a signature, asked by another kind", signature, "", known.SHA512, codes(verdict.NoArtifact)},
		{"a statement", said256, kind, known.SHA256, nil},
		{"a statement of another artifact", said256, kind, digest.Of(digest.SHA256, nil), codes(verdict.NotBound)},
		{"a statement, asked by another kind", said256, kind, known.SHA512, codes(verdict.NoArtifact)},
		{"a statement by SHA-512", said512, kind, known.SHA512, nil},
		{"a statement by SHA-512 of another artifact", said512, kind, digest.Of(digest.SHA512, nil), codes(verdict.NotBound)},
		{"a statement by SHA-512, asked by SHA-256", said512, kind, known.SHA256, codes(verdict.NoArtifact)},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			v := gate.Files(t.Context(), gate.FileRequest{
				Files: []gate.File{{Digest: r.of, Bundle: r.bundle}}, Ask: gate.Ask{Signer: gate.SignedBy(w.verifier, who), Type: r.kind}, Now: time.Now(),
			})
			refused(t, v.Err(), r.codes...)
			for _, f := range v.Findings {
				if f.Code == verdict.NoArtifact && (!strings.HasPrefix(f.Fix, "give the file itself, or its sha") || !strings.Contains(f.Message, "cannot be compared")) {
					t.Errorf("%s → %s", f.Message, f.Fix)
				}
			}
		})
	}
}

// TestClockOfTheVerifier: a clock that is far ahead changes nothing, for all
// times come from those who signed them. One before what is proven is wrong, and
// said to be.
func TestClockOfTheVerifier(t *testing.T) {
	w := theWorld(t)
	issuer, release := w.Lab.Identity(lab.RoleRelease)
	who := must[identity.Matcher](t)(identity.Exact(identity.Identity{Issuer: issuer, Subject: release, Type: identity.Email}))
	path := filepath.Join(t.TempDir(), "lantern")
	for name, body := range map[string][]byte{path: []byte(artifact), path + gate.BundleSuffix: encode(t, w.author(t, lab.RoleRelease).sign(t, blob()))} {
		if err := os.WriteFile(name, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rows := []struct {
		name  string
		years int
		codes []verdict.Code
	}{{"D26 right", 0, nil}, {"D26 two years ahead", 2, nil}, {"D26 two years behind", -2, codes(verdict.Clock)}}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			v := gate.Files(t.Context(), gate.FileRequest{
				Files: []gate.File{{Path: path}}, Ask: gate.Ask{Signer: gate.SignedBy(w.verifier, who)}, Now: time.Now().AddDate(r.years, 0, 0),
			})
			refused(t, v.Err(), r.codes...)
		})
	}
}

// TestSHA384: a key of P-384 signs the SHA-384 digest, which is computed where the
// file is at hand.
func TestSHA384(t *testing.T) {
	w := theWorld(t)
	issuer, release := w.Lab.Identity(lab.RoleRelease)
	who := must[identity.Matcher](t)(identity.Exact(identity.Identity{Issuer: issuer, Subject: release, Type: identity.Email}))
	a := author{lab: w.Lab, pair: must[*sign.EphemeralKeypair](t)(sign.NewEphemeralKeypair(&sign.EphemeralKeypairOptions{Algorithm: protocommon.PublicKeyDetails_PKIX_ECDSA_P384_SHA_384}))}
	a.der = must[[]byte](t)(sign.NewFulcio(&sign.FulcioOptions{BaseURL: w.Lab.Fulcio}).GetCertificate(t.Context(), a.pair, &sign.CertificateProviderOptions{IDToken: w.Lab.Token(lab.RoleRelease)}))
	signature := encode(t, a.sign(t, blob()))
	claimed := bytes.Replace(signature, []byte("SHA2_384"), []byte("SHA2_256"), 1)
	for _, r := range []struct {
		name  string
		body  string
		proof []byte
		codes []verdict.Code
	}{
		{"the file", artifact, signature, nil},
		{"another file", artifact + "x", signature, codes(verdict.NotBound)},
		{"called another algorithm", artifact, claimed, codes(verdict.DigestHint)},
		{"the digest alone", "", signature, codes(verdict.NoArtifact)},
	} {
		t.Run(r.name, func(t *testing.T) {
			file := gate.File{Path: filepath.Join(t.TempDir(), "lantern")}
			file.Bundle = file.Path + gate.BundleSuffix
			for name, body := range map[string]string{file.Path: r.body, file.Bundle: string(r.proof)} {
				if err := os.WriteFile(name, []byte(body), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if r.body == "" {
				file.Path, file.Digest = "", digest.Of(digest.SHA256, []byte(artifact))
			}
			v := gate.Files(t.Context(), gate.FileRequest{Files: []gate.File{file}, Ask: gate.Ask{Signer: gate.SignedBy(w.verifier, who)}, Now: time.Now()})
			refused(t, v.Err(), r.codes...)
		})
	}
}
