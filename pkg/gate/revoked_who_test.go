package gate

import (
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// signedBlob is verified evidence, by an identity or by a key.
func signedBlob(t *testing.T, name string) verify.Evidence {
	t.Helper()
	s := genuine(t, name)
	e, err := s.verifier.Blob(content(t, s.bundle), digest.SetOf(content(t, s.file)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestRevocationsHit: a revocation hits evidence of whom it names, made since
// the day that it gives, and no other.
func TestRevocationsHit(t *testing.T) {
	e := signedBlob(t, "blob")
	who, other := e.Identity(), digest.Of(digest.SHA256, []byte("another")).String()
	identity := func(issuer, subject, kind string) string {
		return "identity: {issuer: \"" + issuer + "\", subject: " + subject + ", type: " + kind + "}"
	}
	mine := identity(who.Issuer, who.Subject, "email")
	day := func(days int) string {
		return "\n  since: \"" + e.SignedAt().AddDate(0, 0, days).UTC().Format(time.DateOnly) + "\""
	}
	for _, row := range []struct {
		name, entry string
		revoked     bool
	}{
		{"its identity", mine, true},
		{"its certificate", "certificate: " + e.Certificate().String(), true},
		{"another subject", identity(who.Issuer, "mallory@evil.example", "email"), false},
		{"its subject at another issuer", identity("https://issuer.evil.example", who.Subject, "email"), false},
		{"another certificate", "certificate: " + other, false},
		{"another key", "key: " + other, false},
		{"its certificate's digest as a key", "key: " + e.Certificate().String(), false},
		{"its identity since before it signed", mine + day(-1), true},
		{"its identity since the day on which it signed", mine + day(0), true},
		{"its identity since after it signed", mine + day(1), false},
		{"its certificate since after it signed", "certificate: " + e.Certificate().String() + day(1), false},
		{"another first, then it", "key: " + other + "\n- reason: lost\n  " + mine, true},
		{"two others", "key: " + other + "\n- reason: lost\n  certificate: " + other, false},
	} {
		r, err := ParseRevocations([]byte("apiVersion: waybill/v1\nkind: Revocations\nrevoked:\n- reason: lost\n  " + row.entry + "\n"))
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		err = r.check(e, "bin/a")
		if (err != nil) != row.revoked || err != nil && verdict.FindingOf("", err).Code != verdict.Revoked {
			t.Errorf("%s: %v, want revoked: %t", row.name, err, row.revoked)
		}
	}
	if err := (Revocations{}).check(e, "bin/a"); err != nil {
		t.Errorf("nobody revoked: %v", err)
	}
}
