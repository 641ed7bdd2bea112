package verify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// below is a trust root with the authorities of a house only.
type below struct {
	root.TrustedMaterial
	house house
}

func (b below) FulcioCertificateAuthorities() []root.CertificateAuthority {
	return b.house.FulcioCertificateAuthorities()
}

// TestWhyABundleIsRefused: each row changes one fact of the trust root.
func TestWhyABundleIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(t *testing.T, v *Verifier, signed time.Time)
		code    verdict.Code
		message string
	}{
		"the twin": {func(*testing.T, *Verifier, time.Time) {}, "", ""},
		"the log's key ended before": {func(_ *testing.T, v *Verifier, signed time.Time) {
			for _, w := range v.seen.logs {
				w.log.ValidityPeriodEnd = signed.Add(-time.Hour)
			}
		}, verdict.KeyExpired, "ENDED"},
		"another authority": {func(t *testing.T, v *Verifier, _ time.Time) {
			v.material = below{v.material, newHouse(t, func(*x509.Certificate) {})}
		}, verdict.ChainUntrusted, "no authority of the trust root"},
		"no certificate log": {func(_ *testing.T, v *Verifier, _ time.Time) {
			v.material = logless{v.material}
		}, verdict.SCT, ""},
	} {
		m, v := known(t, "blob")
		signed := m.leaf.NotBefore.Add(time.Second)
		row.change(t, v, signed)
		_, err := v.keyless(m)
		wantsCode(t, name, err, row.code)
		part := strings.ReplaceAll(row.message, "ENDED", `to "`+signed.Add(-time.Hour).UTC().Format(time.RFC3339)+`"`)
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", name, err, part)
		}
	}
}

// logless is a trust root without certificate logs.
type logless struct{ root.TrustedMaterial }

func (logless) CTLogs() map[string]*root.TransparencyLog { return nil }

// TestWhyACertificateIsRefused: a certificate that the authority issued is not
// trusted for something else, or not within the trust root's window, or no log
// promised it.
func TestWhyACertificateIsRefused(t *testing.T) {
	server := signer("a@example.test")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for name, row := range map[string]struct {
		template *x509.Certificate
		end      time.Time // of the trust root's window
		code     verdict.Code
	}{
		"for something else":         {server, time.Time{}, verdict.ChainUntrusted},
		"after the window":           {signer("a@example.test"), day0.Add(time.Hour), verdict.KeyExpired},
		"trusted, but without a log": {signer("a@example.test"), time.Time{}, verdict.SCTMissing},
		"trusted, within the window": {signer("a@example.test"), day0.AddDate(0, 1, 0), verdict.SCTMissing},
	} {
		h := newHouse(t, func(*x509.Certificate) {})
		h.authority.ValidityPeriodEnd = row.end
		leaf, _ := issueTo(t, row.template, h.below, h.key)
		trusted, seen := &trusting{house: h}, &memory{}
		found, err := chained(leaf, trusted, []time.Time{day0.AddDate(0, 0, 1)}, seen)
		if err == nil {
			err = published(found, trusted, 1, seen)
		}
		wantsCode(t, name, err, row.code)
	}
}

// TestWhyThereIsNoTime: a time that no log promised is unsigned.
func TestWhyThereIsNoTime(t *testing.T) {
	m, _ := known(t, "blob-rekor-v1")
	entry := m.entity.GetVerificationMaterial().GetTlogEntries()[0]
	promise := entry.GetInclusionPromise()
	for _, row := range []struct {
		name   string
		change func()
		have   int
		code   verdict.Code
	}{
		{"a promised time, of a log that does not count", func() {}, 0, verdict.TimeMissing},
		{"a time without a promise", func() { entry.InclusionPromise = nil }, 0, verdict.TimeUnsigned},
		{"no time", func() { entry.IntegratedTime = 0 }, 0, verdict.TimeMissing},
		{"one of two", func() { entry.InclusionPromise = promise }, 1, verdict.Threshold},
	} {
		row.change()
		var err error
		if m.entries, err = readEntries(m.entity); err != nil {
			t.Fatal(err)
		}
		wantsCode(t, row.name, untimed(m, row.have, row.have+1), row.code)
	}
}

// TestTextsOfKeys: a key is one PEM block of type PUBLIC KEY, of an accepted kind.
func TestTextsOfKeys(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "genuine", "blob-key", "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		text string
		code verdict.Code
	}{
		"a key":        {string(text), ""},
		"no PEM":       {"key", verdict.Usage},
		"another type": {strings.ReplaceAll(string(text), "PUBLIC KEY", "PRIVATE KEY"), verdict.Usage},
		"two keys":     {string(text) + string(text), verdict.Usage},
		"a broken key": {"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", verdict.Usage},
	} {
		_, err := ParseKey([]byte(row.text))
		wantsCode(t, name, err, row.code)
	}
	_, v := known(t, "blob-key")
	_, err = v.Key(&rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 1023), E: 65537})
	wantsCode(t, "a verifier of a short key", err, verdict.CertLimit)
	_, err = v.Key(&ecdsa.PublicKey{Curve: elliptic.P224()})
	wantsCode(t, "a verifier of a key of a small curve", err, verdict.CertLimit)
}

// TestIssuersOfACertificate: the two extensions with the issuer agree, and neither
// is "none", which is how a missing issuer is written.
func TestIssuersOfACertificate(t *testing.T) {
	const issuer, other = "https://accounts.example.test", "https://accounts.other.test"
	for name, row := range map[string]struct {
		old, current string
		code         verdict.Code
	}{
		"both":             {issuer, issuer, ""},
		"only the old one": {issuer, "", ""},
		"only the new one": {"", issuer, ""},
		"two issuers":      {issuer, other, verdict.IssuerConflict},
		"no issuer":        {"", "", verdict.SANType},
		"called none":      {"none", "none", verdict.SANType},
	} {
		template := signer("release@example.test")
		if row.old != "" {
			template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: oidIssuer, Value: []byte(row.old)})
		}
		if row.current != "" {
			encoded, err := asn1.MarshalWithParams(row.current, "utf8")
			if err != nil {
				t.Fatal(err)
			}
			template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: oidIssuerV2, Value: encoded})
		}
		leaf, _ := issueTo(t, template, nil, nil)
		who, err := CertificateIdentity(leaf.Raw)
		wantsCode(t, name, err, row.code)
		if err == nil && (who.Issuer != issuer || who.Subject != "release@example.test") {
			t.Errorf("%s: %s", name, who)
		}
	}
}

// TestTimestampForDisplay: the time in a timestamp is the one that is proven.
func TestTimestampForDisplay(t *testing.T) {
	m, v := known(t, "blob")
	said, err := Read(m.raw)
	if err != nil {
		t.Fatal(err)
	}
	proven, err := v.keyless(m)
	if err != nil {
		t.Fatal(err)
	}
	if at, serial, err := said.Timestamp(0); err != nil || !at.Equal(proven.SignedAt()) || serial.Sign() <= 0 {
		t.Errorf("%s with the serial number %d, %v, want %s", at, serial, err, proven.SignedAt())
	}
}

// TestHintBesideSHA384: a wrong digest beside a signature is told from a bundle
// for other bytes, also if the SHA-384 digest is known.
func TestHintBesideSHA384(t *testing.T) {
	m, v := known(t, "blob")
	artifact, err := os.ReadFile(filepath.Join("testdata", "genuine", "blob", "artifact"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum384(artifact)
	if m.entries, err = readEntries(m.entity); err != nil {
		t.Fatal(err)
	}
	_, err = v.BlobSHA384(m.raw, digest.SetOf(artifact), sum[:])
	wantsCode(t, "the twin", err, "")
	m.entity.GetMessageSignature().MessageDigest.Digest[0] ^= 1
	wantsCode(t, "another digest beside the signature", m.bind(digest.SetOf(artifact), sum[:]), verdict.DigestHint)
	wantsCode(t, "other bytes", m.bind(digest.SetOf(nil), sum[:]), verdict.NotBound)
}
