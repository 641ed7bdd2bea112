package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestCertificateFiles: the service starts with a certificate and its key, and
// not with files that are none, or with another key (CONFIG).
func TestCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, kind string, raw []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newKey := func(name string) (*ecdsa.PrivateKey, string) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return key, write(name, "PRIVATE KEY", raw)
	}
	own, key := newKey("own.key")
	_, another := newKey("another.key")
	like := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"gate.example.test"}}
	raw, err := x509.CreateCertificate(rand.Reader, like, like, own.Public(), own)
	if err != nil {
		t.Fatal(err)
	}
	certificate := write("server.crt", "CERTIFICATE", raw)
	for name, row := range map[string]struct {
		tls  *TLS
		good bool
	}{
		"none":               {nil, true},
		"both":               {&TLS{Certificate: certificate, Key: key}, true},
		"with clients":       {&TLS{Certificate: certificate, Key: key, Clients: certificate}, true},
		"another key":        {&TLS{Certificate: certificate, Key: another}, false},
		"no key":             {&TLS{Certificate: certificate, Key: filepath.Join(dir, "none")}, false},
		"clients without it": {&TLS{Certificate: certificate, Key: key, Clients: key}, false},
	} {
		if err := (Config{TLS: row.tls}).Check(); (err == nil) != row.good || err != nil && verdict.FindingOf("", err).Code != verdict.ConfigParse {
			t.Errorf("%s: %v, want good %t", name, err, row.good)
		}
	}
}
