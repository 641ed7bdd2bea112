package lab

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestDomain: in a domain without logs a timestamp suffices, and a certificate needs
// no issuer. Each row changes one fact, and is refused.
func TestDomain(t *testing.T) {
	d, other := newDomain(t), newDomain(t)
	const as = "https://dotcom.releases.github.com"
	statement := []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"a","digest":{"sha256":"` + strings.Repeat("0", 64) + `"}}],` +
		`"predicateType":"https://in-toto.io/attestation/release/v0.2","predicate":{}}`)
	sign := func(d *Domain, issuer string) []byte {
		raw, err := d.Sign(as, issuer, statement)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	domain := func(raw []byte) *verify.Verifier {
		root, err := trust.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		v, err := verify.New(root)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	edited := func(raw []byte, edit func(material map[string]any)) []byte {
		var b map[string]any
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		edit(b["verificationMaterial"].(map[string]any))
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	genuine, v := sign(d, ""), domain(d.TrustedRoot)
	e, err := v.Attestation(genuine)
	if want := (identity.Identity{Subject: as, Type: identity.URI}).WithoutIssuer(); err != nil || e.Identity() != want || e.Log() != "" || e.SignedAt().IsZero() {
		t.Fatalf("%v, by %s", err, e.Identity())
	}
	const issuer = "https://token.actions.githubusercontent.com"
	if e, err = v.Attestation(sign(d, issuer)); err != nil || e.Identity().Issuer != issuer {
		t.Fatalf("%v, by %s", err, e.Identity())
	}
	public := domain(trust.Embedded().Raw())
	for _, r := range []struct {
		name string
		by   *verify.Verifier
		raw  []byte
		code verdict.Code
	}{
		{"judged by the public-good root", public, genuine, verdict.LogMissing},
		{"signed in another domain without logs", v, sign(other, ""), verdict.TSACert},
		{"without a timestamp", v, edited(genuine, func(m map[string]any) { delete(m, "timestampVerificationData") }), verdict.TimeMissing},
		{"with an issuer of the name none", v, sign(d, "none"), verdict.SANType},
	} {
		if _, err := r.by.Attestation(r.raw); verdict.FindingOf("", err).Code != r.code {
			t.Errorf("%s: %v, want %s", r.name, err, r.code)
		}
	}
	root, err := trust.Parse(d.TrustedRoot)
	if err != nil || !root.IsLogless() || trust.Embedded().IsLogless() {
		t.Fatal(err, "the roots say the wrong thing about their logs")
	}
	for _, rules := range []verify.Rules{{Logs: 2, Times: 1, SCTs: 1}, {Logs: 1, Times: 1, SCTs: 2}, {Logs: 1, SCTs: 1}, {Logs: 1, Times: 2, SCTs: 1}, {Logs: 1, Times: 1, SCTs: 1, Stated: true}} {
		with, err := verify.NewWith(root, rules)
		if err == nil { // the domain could meet it, but this bundle does not
			_, err = with.Attestation(genuine)
		}
		if err == nil {
			t.Errorf("%+v accepts a bundle with one timestamp", rules)
		}
	}
}

func newDomain(t *testing.T) *Domain {
	t.Helper()
	d, err := NewDomain(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}
