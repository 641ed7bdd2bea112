package legacy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestBundle judges cosign's legacy bundle: the entry came along, its promise
// says when.
func TestBundle(t *testing.T) {
	w := newWorld(t)
	a := w.sign(t, []byte("a"))
	other := w.sign(t, []byte("b"))
	again := w.sign(t, []byte("a"))
	expired := w.signAs(t, &sign.PlainData{Data: []byte("a")}, []byte("a"), time.Hour)
	for _, c := range []struct {
		name string
		raw  []byte
		want verdict.Code
	}{
		{"as it was made", a.bundle(t), ""},
		{"of another artifact, wholly", other.bundle(t), verdict.LogEntryUnbound},
		{"the entry of another artifact", a.with(other).bundle(t), verdict.LogEntryUnbound},
		{"the entry of another signature", a.with(again).bundle(t), verdict.LogSigMismatch},
		{"another signature", signed{artifact: a.artifact, signature: again.signature, certificate: a.certificate, entry: a.entry}.bundle(t), verdict.LogSigMismatch},
		{"another certificate", signed{artifact: a.artifact, signature: a.signature, certificate: again.certificate, entry: a.entry}.bundle(t), verdict.LogKeyMismatch},
		{"a time that nobody promised", a.bundle(t, func(_, p map[string]any) { p["integratedTime"] = a.entry.GetIntegratedTime() + 1 }), verdict.LogPromise},
		{"another place in the log", a.bundle(t, func(_, p map[string]any) { p["logIndex"] = 7 }), verdict.LogPromise},
		{"a promise that was dropped", a.bundle(t, func(l, _ map[string]any) { delete(l, "SignedEntryTimestamp") }), verdict.BundleLacks},
		{"a promise that was changed", a.bundle(t, func(l, _ map[string]any) {
			l["SignedEntryTimestamp"] = flip(a.entry.GetInclusionPromise().GetSignedEntryTimestamp())
		}), verdict.LogPromise},
		{"a log that nobody knows", a.bundle(t, func(_, p map[string]any) { p["logID"] = fmt.Sprintf("%064x", 1) }), verdict.LogUnknown},
		{"a body that is none", a.bundle(t, func(_, p map[string]any) { p["body"] = "e30=" }), verdict.BundleParse},
		{"logged after the certificate expired", expired.bundle(t), verdict.TimeCert},
		{"a public key for a certificate", keyed(t, a).bundle(t), verdict.CertParse},
		{"no certificate", signed{artifact: a.artifact, signature: a.signature, entry: a.entry}.bundle(t), verdict.CertMissing},
		{"a field more", append(a.bundle(t)[:len(a.bundle(t))-1], `,"more":1}`...), verdict.BundleParse},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := legacy.ParseBundle(legacy.Certificate, a.digest(), c.raw)
			if err == nil {
				err = w.judge(m, a.artifact)
			}
			expect(t, err, c.want)
		})
	}
}

// with is s with the log entry of another.
func (s signed) with(other signed) signed {
	s.entry = other.entry
	return s
}

// keyed has a public key where its certificate should be.
func keyed(t *testing.T, s signed) signed {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	s.certificate = encode64(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	return s
}

// TestKind holds what was found against what was asked: a key is not a
// certificate, nor the reverse.
func TestKind(t *testing.T) {
	w := newWorld(t)
	a := w.sign(t, []byte("a"))
	for _, c := range []struct {
		name        string
		by          legacy.Signer
		certificate []byte
		want        verdict.Code
	}{
		{"a certificate", legacy.Certificate, a.certificate, ""},
		{"a certificate in plain PEM", legacy.Certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.der}), ""},
		{"a certificate, where a key was asked for", legacy.Key, a.certificate, verdict.MaterialKind},
		{"a key, where a certificate was asked for", legacy.Certificate, keyed(t, a).certificate, verdict.CertParse},
		{"a key", legacy.Key, keyed(t, a).certificate, ""},
		{"nothing, where a key was asked for", legacy.Key, nil, ""},
		{"nothing, where a certificate was asked for", legacy.Certificate, nil, verdict.CertMissing},
		{"no kind", 0, a.certificate, verdict.Usage},
		{"text behind the certificate", legacy.Certificate, append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.der}), "x"...), verdict.CertParse},
		{"DER", legacy.Certificate, a.der, verdict.CertParse},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := legacy.ParseFiles(c.by, a.digest(), a.signature, c.certificate)
			expect(t, err, c.want)
		})
	}
}
