package mint

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/test/lab"
)

// Authorities lays keys and certificates of P-384 where a lab looks for those that it
// made before: a root with an intermediate for Fulcio, and a root with the
// signer itself for the timestamp authority.
func Authorities(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	between := template("Fulcio intermediate")
	between.IsCA, between.BasicConstraintsValid, between.MaxPathLenZero = true, true, true
	between.KeyUsage, between.ExtKeyUsage = x509.KeyUsageCertSign, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	if err := chain(dir, "fulcio", between); err != nil {
		return err
	}
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		return err
	}
	stamper := template("timestamps")
	stamper.KeyUsage = x509.KeyUsageDigitalSignature
	stamper.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}}
	return chain(dir, "tsa", stamper)
}

// chain writes name.key and name.pem: a certificate below a root of its own.
func chain(dir, name string, below *x509.Certificate) error {
	top := template(name + " root")
	top.IsCA, top.BasicConstraintsValid, top.MaxPathLen = true, true, 1
	top.KeyUsage = x509.KeyUsageCertSign
	rootKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return err
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, top, top, rootKey.Public(), rootKey)
	if err != nil {
		return fmt.Errorf("certifying %q: %w", top.Subject, err)
	}
	if top, err = x509.ParseCertificate(rootDER); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, below, top, key.Public(), rootKey)
	if err != nil {
		return fmt.Errorf("certifying %q: %w", below.Subject, err)
	}
	return write(dir, name, key, der, rootDER)
}

func write(dir, name string, key crypto.PrivateKey, certificates ...[]byte) error {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, der := range certificates {
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, name+".pem"), out.Bytes(), 0o600)
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic("mint: no randomness: " + err.Error())
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"waybill " + lab.Mark}, CommonName: lab.Mark + " " + name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(10, 0, 0),
	}
}
