package lab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"time"
)

func newECDSA() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func newEd25519() (crypto.Signer, error) {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	return k, err
}

// authority is a chain of certificates under construction, leaf first.
type authority struct {
	usage x509.ExtKeyUsage
	chain []*x509.Certificate
	key   crypto.Signer // of chain[0]
}

// newAuthority makes a self-signed root. Its key is dropped with the value: no
// lab ever needs a second intermediate.
func newAuthority(name string, usage x509.ExtKeyUsage) (*authority, error) {
	key, err := newECDSA()
	if err != nil {
		return nil, err
	}
	a := &authority{usage: usage, key: key}
	return a, a.add(caTemplate(name+" root", 1), key)
}

// intermediate puts a certificate authority for key below the chain's first.
func (a *authority) intermediate(name string, key crypto.Signer) error {
	t := caTemplate(name+" intermediate", 0)
	t.ExtKeyUsage = []x509.ExtKeyUsage{a.usage}
	return a.add(t, key)
}

// timestamper puts a leaf with the one critical usage that RFC 3161 §2.3 asks.
func (a *authority) timestamper(name string, key crypto.Signer) error {
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		return err
	}
	t := template(name)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}}
	return a.add(t, key)
}

func (a *authority) add(t *x509.Certificate, key crypto.Signer) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	t.SerialNumber = serial
	parent := t
	if len(a.chain) > 0 {
		parent = a.chain[0]
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("certifying %q: %w", t.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("certifying %q: %w", t.Subject.CommonName, err)
	}
	a.chain, a.key = append([]*x509.Certificate{cert}, a.chain...), key
	return nil
}

// template is valid by the real clock, as Fulcio and the timestamp authority
// read no other.
func template(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"waybill " + Mark}, CommonName: Mark + " " + name},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().AddDate(10, 0, 0),
	}
}

func caTemplate(name string, below int) *x509.Certificate {
	t := template(name)
	t.IsCA, t.BasicConstraintsValid = true, true
	t.MaxPathLen, t.MaxPathLenZero = below, below == 0
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return t
}
