package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// forgery is a certificate that a trusted authority should never have made.
type forgery struct {
	name, why string
	change    edit
	code      verdict.Code
	secret    bool   // no certificate log has seen it
	twice     bool   // its one certificate log promised it twice
	ca        string // the authority, where it is the attacker's own
	says      string // the statement that it signs; empty: it signs the artifact
}

func (f forgery) content() sign.Content {
	if f.says == "" {
		return &sign.PlainData{Data: []byte(artifact)}
	}
	return &sign.DSSEData{Data: []byte(f.says), PayloadType: intoto.PayloadType}
}

const (
	release = "release@lab.invalid"
	mallory = "mallory@evil.example"
	evil    = "https://issuer.evil.example"
)

func forgeries() []forgery {
	uses := func(list ...x509.ExtKeyUsage) edit { return func(c *x509.Certificate) { c.ExtKeyUsage = list } }
	emails := func(list ...string) edit { return func(c *x509.Certificate) { c.EmailAddresses = list } }
	return []forgery{
		{name: "certificate-by-hand", why: "the authority's key made the certificate by hand, and nothing is wrong with it"},
		{name: "certificate-secret", why: "C13: no certificate log has seen it", code: verdict.SCTMissing, secret: true},
		{name: "certificate-suffix", why: "C01: an address that ends with the one that is asked", change: emails("not-" + release), code: verdict.Identity},
		{name: "certificate-prefix", why: "C02: an address that begins with the one that is asked", change: emails(release + ".evil.example"), code: verdict.Identity},
		{name: "certificate-case", why: "C27: the address in another case", change: emails(strings.ToUpper(release[:1]) + release[1:]), code: verdict.Identity},
		{name: "certificate-mailto", why: "C08: the address as a mailto: URI", change: as("mailto:" + release), code: verdict.Identity},
		{name: "certificate-uri", why: "C08: a URI of the very text of the address", change: as(release), code: verdict.SANType},
		{name: "certificate-wildcard", why: "C18: a wildcard in place of the address", change: emails("*@lab.invalid"), code: verdict.SANType},
		{name: "certificate-punycode", why: "C27: the address at a host that looks the same", change: emails("release@xn--lb-ijc.invalid"), code: verdict.Identity},
		{name: "certificate-two-names", why: "C09: two addresses, the one that is asked first", change: emails(release, mallory), code: verdict.SANCount},
		{name: "certificate-two-names-last", why: "C09: two addresses, the one that is asked last", change: emails(mallory, release), code: verdict.SANCount},
		{name: "certificate-name-and-host", why: "the address and a host", change: func(c *x509.Certificate) { c.DNSNames = []string{"evil.example"} }, code: verdict.SANCount},
		{name: "certificate-no-name", why: "it names nobody", change: emails(), code: verdict.CertParse},
		{name: "certificate-issuer", why: "C11: another issuer vouched for the address", change: func(c *x509.Certificate) { c.ExtraExtensions = issuers(evil, evil) }, code: verdict.Issuer},
		{name: "certificate-two-issuers", why: "C12: the older of the two issuer extensions names another issuer", change: func(c *x509.Certificate) {
			c.ExtraExtensions[0].Value = []byte(evil)
		}, code: verdict.IssuerConflict},
		{name: "certificate-no-issuer", why: "nobody vouched for the address", change: func(c *x509.Certificate) { c.ExtraExtensions = nil }, code: verdict.SANType},
		{name: "certificate-for-servers", why: "C17: issued for servers, not for code", change: uses(x509.ExtKeyUsageServerAuth), code: verdict.CertProfile},
		{name: "certificate-for-anything", why: "C17: issued for any use", change: uses(x509.ExtKeyUsageAny), code: verdict.CertProfile},
		{name: "certificate-for-nothing", why: "C17: issued for no use in particular", change: uses(), code: verdict.CertProfile},
		{name: "certificate-of-an-authority", why: "C17: it may issue certificates itself", change: func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
		}, code: verdict.CertProfile},
		{name: "certificate-expired", why: "signed after the certificate's life", change: life(-20*time.Minute, -10*time.Minute), code: verdict.TimeCert},
		{name: "certificate-too-early", why: "signed before the certificate's life", change: life(10*time.Minute, 20*time.Minute), code: verdict.TimeCert},
		{name: "certificate-critical-extension", why: "C10: a critical extension that nobody knows", change: func(c *x509.Certificate) {
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 9999}, Critical: true, Value: asn1.NullBytes})
		}, code: verdict.ChainUntrusted},
	}
}

// saying is a statement that the author signed as it is.
type saying struct {
	name, why, payload string
	code               verdict.Code
}

func sayings() []saying {
	const predicate = `"predicateType":"` + predicateType + `"`
	sum := digest.Of(digest.SHA256, []byte(artifact)).Hex()
	good := `{"_type":"` + intoto.TypeV1 + `","subject":[{"name":"` + artifactName + `","digest":{"sha256":"` + sum + `"}}],` + predicate + `,"predicate":{}}`
	with := func(old, text string) string { return strings.Replace(good, old, text, 1) }
	return []saying{
		{"statement-v0.1", "A27: the older version of the statement", with("Statement/v1", "Statement/v0.1"), ""},
		{"statement-not-json", "A21: the payload is no JSON", "hello", verdict.StatementParse},
		{"statement-a-list", "A21: the payload is no object", "[]", verdict.StatementParse},
		{"statement-unknown-version", "A27: a version that does not exist", with("Statement/v1", "Statement/v9"), verdict.StatementType},
		{"statement-no-version", "A27: no version", with(`"_type":"`+intoto.TypeV1+`",`, ""), verdict.StatementType},
		{"statement-key-twice", "B01: two predicate types: readers differ in which one they take", with(predicate, predicate+`,"predicateType":"x"`), verdict.StatementParse},
		{"statement-key-twice-deep", "B01: a key twice inside the predicate", with(`"predicate":{}`, `"predicate":{"a":[{"b":1,"b":2}]}`), verdict.StatementParse},
		{"statement-key-case", "B03: a key in another case: lenient readers take it for the right one", with(`"predicateType"`, `"PredicateType"`), verdict.StatementParse},
		{"statement-subjects-twice", "B02: two lists of subjects: lenient readers take the name of one and the digest of the other", with(`"subject":[`, `"subject":[{"name":"other"}],"subject":[`), verdict.StatementParse},
		{"statement-key-folds", "B04: a key with a long s, which lenient readers take for the right one", with(`"predicateType"`, `"\u017fubject":[],"predicateType"`), verdict.StatementParse},
		{"statement-invalid-utf-8", "B05: a byte that is no UTF-8", with(`"predicate":{}`, "\"predicate\":{\"a\":\"\xff\"}"), verdict.StatementParse},
		{"statement-too-deep", "B07: lists within lists", with(`"predicate":{}`, `"predicate":{"a":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+"}"), verdict.StatementParse},
		{"statement-number", "B08: a number that readers round", with(`"predicate":{}`, `"predicate":{"a":1e999}`), verdict.StatementParse},
		{"statement-byte-order-mark", "B13: a byte order mark in front", "\ufeff" + good, verdict.StatementParse},
		{"statement-digest-in-capitals", "B17: a digest in capitals", with(sum, strings.ToUpper(sum)), verdict.StatementParse},
		{"statement-digest-too-short", "B17: a digest that was cut short", with(sum, sum[:62]), verdict.StatementParse},
		{"statement-too-many-subjects", "F12: one subject more than the declared cap", with(`"subject":[`, `"subject":[`+strings.Repeat(`{},`, 100_000)), verdict.LimitSubjects},
		{"statement-no-subject", "F03: it speaks of nothing", with(good[strings.Index(good, `[{`):strings.Index(good, `],`)+1], "[]"), verdict.StatementParse},
		{"statement-md5", "F10: a digest of the right length under a name that counts for nothing", with(`"sha256"`, `"md5"`), verdict.NotBound},
		{"statement-sha256-in-capitals", "F10: the digest's name in capitals", with(`"sha256"`, `"SHA256"`), verdict.StatementParse},
		{"statement-twice", "B06: a second statement behind the first", good + good, verdict.StatementParse},
	}
}

// signedAsTold are the vectors of both tables; the bundles have their names.
func signedAsTold() (all []vector) {
	for _, f := range forgeries() {
		all = append(all, vector{name: f.name, why: f.why, from: f.name, code: f.code})
	}
	for _, s := range sayings() {
		all = append(all, vector{name: s.name, why: s.why, from: s.name, code: s.code})
	}
	return all
}
