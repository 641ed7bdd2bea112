package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"time"

	"github.com/sigstore/fulcio/pkg/ca"
	"github.com/sigstore/fulcio/pkg/ca/baseca"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// authorities sign with certificates of authorities of the attacker's own,
// which the trust root names beside the genuine one.
func authorities() []question {
	return []question{
		{vector: vector{name: "intermediate-valid", why: "an authority of one's own, in order", from: "certificate-of-an-own-authority"}, root: believing("permitting")},
		{vector: vector{name: "intermediate-expired", why: "C15: the authority's certificate had expired before it issued", from: "certificate-after-its-authority", code: verdict.ChainExpired},
			root: believing("expired"), beside: "intermediate-valid"},
		{vector: vector{name: "name-constraint", why: "C18: the authority may issue for another domain only", from: "certificate-beyond-its-constraint", code: verdict.ChainUntrusted},
			root: believing("constrained"), beside: "intermediate-valid"},
		{vector: vector{name: "authority-unknown", why: "C20: the same authority, which the trust root does not name", from: "certificate-of-an-own-authority", code: verdict.ChainUntrusted},
			beside: "intermediate-valid"},
		{vector: vector{name: "root-of-ones-own-in-the-chain", why: "A08: the same authority, whose root and intermediate the bundle brings along", from: "certificate-of-an-own-authority",
			change: chained(func(s *maker) [][]byte { return s.authorities["permitting"] }), code: verdict.ChainUntrusted}, beside: "root-of-a-known-authority-in-the-chain"},
		{vector: vector{name: "root-of-a-known-authority-in-the-chain", why: "its chain, which the trust root names too", from: "certificate-of-an-own-authority",
			change: chained(func(s *maker) [][]byte { return s.authorities["permitting"] })}, root: believing("permitting")},
		{vector: vector{name: "certificate-promised-twice", why: "one certificate log promised it twice, and one is asked", from: "certificate-promised-twice"}},
		{vector: vector{name: "certificate-log-counted-twice", why: "C14: one certificate log promised it twice, and two are asked", from: "certificate-promised-twice", code: verdict.Threshold},
			ask: []string{"--min-scts", "2"}, beside: "certificate-promised-twice"},
		{vector: vector{name: "log-counted-twice", why: "C14: one log has it, and two are asked", from: blob, code: verdict.Threshold}, ask: []string{"--min-logs", "2"}},
	}
}

// ofAuthorities are the certificates that they issue.
func ofAuthorities() []forgery {
	return []forgery{
		{name: "certificate-of-an-own-authority", ca: "permitting"}, {name: "certificate-after-its-authority", ca: "expired"},
		{name: "certificate-beyond-its-constraint", ca: "constrained"}, {name: "certificate-promised-twice", twice: true},
	}
}

// forgeKeys makes the authorities, and certificates of bad keys.
func (s *maker) forgeKeys(ctx context.Context, f forger) error {
	chain, _ := f.authority.GetSignerWithChain()
	for _, c := range chain {
		s.fulcio = append(s.fulcio, c.Raw)
	}
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		return err
	}
	large := &rsa.PublicKey{N: new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 16383), big.NewInt(1)), E: 65537}
	for der, key := range map[*[]byte]crypto.PublicKey{&s.small: small.Public(), &s.large: large} {
		final, err := f.authority.CreateCertificate(ctx, honest(f.lab), key)
		if err != nil {
			return err
		}
		*der = final.FinalCertificate.Raw
	}
	s.authorities = map[string][][]byte{}
	now := time.Now()
	for name, change := range map[string]edit{
		"expired": func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-2*time.Hour), now.Add(-time.Hour) },
		"constrained": func(c *x509.Certificate) {
			c.PermittedEmailAddresses, c.PermittedDNSDomainsCritical = []string{"lab.example"}, true
		},
		"permitting": func(c *x509.Certificate) {
			c.PermittedEmailAddresses, c.PermittedDNSDomainsCritical = []string{"lab.invalid"}, true
		},
	} {
		if f.others[name], err = newAuthority(change); err != nil {
			return err
		}
		certs, _ := f.others[name].GetSignerWithChain()
		for _, c := range certs {
			s.authorities[name] = append(s.authorities[name], c.Raw)
		}
	}
	return s.forgeStampers()
}

// newAuthority has a root and an intermediate, with a change to the latter.
func newAuthority(change edit) (*baseca.BaseCA, error) {
	root, rootKey, err := issue("root", nil, nil, authority)
	if err != nil {
		return nil, err
	}
	between, key, err := issue("intermediate", root, rootKey, func(c *x509.Certificate) {
		authority(c)
		change(c)
	})
	if err != nil {
		return nil, err
	}
	return &baseca.BaseCA{SignerWithChain: &ca.SignerCerts{Signer: key, Certs: []*x509.Certificate{between, root}}}, nil
}

func authority(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
}

// issue makes a key and a certificate of it; without a parent it signs itself.
func issue(name string, parent *x509.Certificate, by crypto.Signer, change edit) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"INSECURE LAB attacks"}, CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	change(c)
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		return nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

// of is the forger with an authority of the attacker's own.
func (f forger) of(name string) forger {
	if name != "" {
		f.authority = f.others[name]
	}
	return f
}

// promisedTwice issues a certificate again with its log's promise in it twice.
func (f forger) promisedTwice(der []byte) ([]byte, error) {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	promises := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}
	for _, e := range c.Extensions {
		if e.Id.Equal(promises) {
			var list []byte
			if _, err := asn1.Unmarshal(e.Value, &list); err != nil {
				return nil, err
			}
			one := list[2:] // behind the length of all
			n := 2 * len(one)
			list = append(append([]byte{byte(n >> 8), byte(n)}, one...), one...)
			if e.Value, err = asn1.Marshal(list); err != nil {
				return nil, err
			}
		}
		c.ExtraExtensions = append(c.ExtraExtensions, e)
	}
	chain, key := f.authority.GetSignerWithChain()
	return x509.CreateCertificate(rand.Reader, c, chain[0], c.PublicKey, key)
}
