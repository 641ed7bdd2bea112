package attacks

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestCertificates has a trusted authority certify what it never should, and
// signs with that. The twin is the certificate of the same forger with nothing
// changed: it is genuine in everything but its origin, and accepted.
func TestCertificates(t *testing.T) {
	w := theWorld(t)
	f := w.forger(t)
	_, release := w.Lab.Identity(lab.RoleRelease)
	honest := f.email(release)
	accepted(t, w.judgeBlob(encode(t, f.author(t, honest).sign(t, blob()))))
	rows := []struct {
		name   string
		change names
		code   verdict.Code
	}{
		{"C01 an address that ends with ours", f.email("not-" + release), verdict.Identity},
		{"C02 an address that begins with ours", f.email(release + ".evil.example"), verdict.Identity},
		{"an address in another case", f.email("Release@lab.invalid"), verdict.Identity},
		{"C08 our address as a URI", honest.then(noEmail).then(uri(release)), verdict.Identity},
		{"a mailto URI of our address", honest.then(noEmail).then(uri("mailto:" + release)), verdict.Identity},
		{"C09 two addresses, ours first", honest.then(alsoEmail("mallory@evil.example")), verdict.SANCount},
		{"C09 two addresses, ours last", f.email("mallory@evil.example").then(alsoEmail(release)), verdict.SANCount},
		{"C09 our address twice", honest.then(alsoEmail(release)), verdict.SANCount},
		{"our address and a URI", honest.then(uri("https://evil.example/build")), verdict.SANCount},
		{"our address and a host", honest.then(func(c *x509.Certificate) { c.DNSNames = []string{"evil.example"} }), verdict.SANCount},
		{"our address and a machine", honest.then(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }), verdict.SANCount},
		{"C10 our address and a name of another kind", honest.then(noEmail).then(rawNames(release, otherName("mallory"))), verdict.SANCount},
		{"C10 a name of another kind alone", honest.then(noEmail).then(rawNames("", otherName(release))), verdict.ChainUntrusted},
		{"our address and a directory name", honest.then(noEmail).then(rawNames(release, directoryName())), verdict.SANCount},
		{"no name", honest.then(noEmail), verdict.CertParse},
		{"a pattern as an address", f.email("*@lab.invalid"), verdict.SANType},
		{"C11 another issuer", honest.then(f.issuer("https://issuer.evil.example")), verdict.Identity},
		{"C11 our issuer with a slash", honest.then(f.issuer(w.Lab.Issuer + "/")), verdict.Identity},
		{"no issuer", honest.then(func(c *x509.Certificate) { c.ExtraExtensions = nil }), verdict.SANType},
		{"an issuer that is no address", honest.then(f.issuer("lab")), verdict.SANType},
		{"C12 the two issuers differ, ours last", honest.then(func(c *x509.Certificate) {
			c.ExtraExtensions[0].Value = []byte("https://issuer.evil.example")
		}), verdict.IssuerConflict},
		{"C12 the two issuers differ, ours first", honest.then(func(c *x509.Certificate) {
			c.ExtraExtensions[1].Value = must[[]byte](t)(asn1.MarshalWithParams("https://issuer.evil.example", "utf8"))
		}), verdict.IssuerConflict},
		{"C17 for servers, not for code", honest.then(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), verdict.CertProfile},
		{"C17 for anything", honest.then(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} }), verdict.CertProfile},
		{"C17 for nothing in particular", honest.then(func(c *x509.Certificate) { c.ExtKeyUsage = nil }), verdict.CertProfile},
		{"C17 an authority", honest.then(func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
		}), verdict.CertProfile},
		{"it had expired", honest.then(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-20*time.Minute), time.Now().Add(-10*time.Minute)
		}), verdict.TimeCert},
		{"it was not valid yet", honest.then(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(10*time.Minute), time.Now().Add(20*time.Minute)
		}), verdict.TimeCert},
		{"a critical extension that nobody knows", honest.then(func(c *x509.Certificate) {
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 9999}, Critical: true, Value: asn1.NullBytes})
		}), verdict.ChainUntrusted},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			refused(t, w.judgeBlob(encode(t, f.author(t, r.change).sign(t, blob()))), r.code)
		})
	}
}

// TestCertificateLog: a certificate that no log has seen could have been made
// in secret (C13).
func TestCertificateLog(t *testing.T) {
	w := theWorld(t)
	f := w.forger(t)
	_, release := w.Lab.Identity(lab.RoleRelease)
	honest := f.email(release)
	seen := f.author(t, honest)
	accepted(t, w.judgeBlob(encode(t, seen.sign(t, blob()))))
	refused(t, w.judgeBlob(encode(t, f.unseen(t, honest).sign(t, blob()))), verdict.SCTMissing)

	borrowed := must[*x509.Certificate](t)(x509.ParseCertificate(seen.der)).Extensions
	scts := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}
	withBorrowed := honest.then(func(c *x509.Certificate) {
		for _, e := range borrowed {
			if e.Id.Equal(scts) {
				c.ExtraExtensions = append(c.ExtraExtensions, e)
			}
		}
	})
	refused(t, w.judgeBlob(encode(t, f.unseen(t, withBorrowed).sign(t, blob()))), verdict.SCT)
}

func noEmail(c *x509.Certificate) { c.EmailAddresses = nil }

func alsoEmail(address string) names {
	return func(c *x509.Certificate) { c.EmailAddresses = append(c.EmailAddresses, address) }
}

func uri(text string) names {
	return func(c *x509.Certificate) {
		u, err := url.Parse(text)
		if err != nil {
			panic("attacks: " + err.Error())
		}
		c.URIs = append(c.URIs, u)
	}
}

// rawNames writes the extension of names by hand, because the standard library
// has no words for some of them.
func rawNames(address string, others ...asn1.RawValue) names {
	return func(c *x509.Certificate) {
		var list []asn1.RawValue
		if address != "" {
			list = append(list, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 1, Bytes: []byte(address)})
		}
		der, err := asn1.Marshal(append(list, others...))
		if err != nil {
			panic("attacks: " + err.Error())
		}
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Critical: true, Value: der})
	}
}

// otherName is the kind of name that Fulcio gives to user names.
func otherName(user string) asn1.RawValue {
	id, errID := asn1.Marshal(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 7})
	text, errText := asn1.MarshalWithParams(user, "utf8")
	value, errValue := asn1.Marshal(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: text})
	for _, err := range []error{errID, errText, errValue} {
		if err != nil {
			panic("attacks: " + err.Error())
		}
	}
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: append(id, value...)}
}

func directoryName() asn1.RawValue {
	der, err := asn1.Marshal(pkix.Name{CommonName: "mallory"}.ToRDNSequence())
	if err != nil {
		panic("attacks: " + err.Error())
	}
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 4, IsCompound: true, Bytes: der}
}
